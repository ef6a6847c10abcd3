//! Names of modes, which follow the modes of a tensor and stand in its errors.

use std::fmt;
use std::sync::Arc;

use crate::ir::{Body, DeviceCoord};

use super::engine::Engine;
use super::error::TensorErrorKind;
use super::tensor::Tensor;

/// The names of the modes of a tensor, one for each; none for a tensor that was given none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names(Option<Arc<[Arc<str>]>>);

impl Names {
    fn new(names: impl IntoIterator<Item = Arc<str>>) -> Names {
        Names(Some(names.into_iter().collect()))
    }

    /// The name of a mode, if it has one.
    pub(super) fn get(&self, mode: usize) -> Option<&str> {
        self.0.as_ref()?.get(mode).map(AsRef::as_ref)
    }

    /// The names of new modes, made from the present ones.
    fn map(&self, f: impl FnOnce(&[Arc<str>]) -> Vec<Arc<str>>) -> Names {
        Names(self.0.as_ref().map(|names| f(names).into()))
    }

    /// The modes that a coordinate keeps. An entry that keeps several parts of a mode gives each its name.
    pub(super) fn slice(&self, coord: &DeviceCoord<'_>) -> Names {
        fn kept(coord: &DeviceCoord<'_>) -> usize {
            match coord {
                DeviceCoord::All => 1,
                DeviceCoord::Host(_) | DeviceCoord::Device(_) => 0,
                DeviceCoord::Tuple(items) => items.iter().map(kept).sum(),
            }
        }
        match coord {
            DeviceCoord::All => self.clone(),
            DeviceCoord::Tuple(items) => self.map(|names| {
                let each = names.iter().zip(items);
                each.flat_map(|(name, item)| std::iter::repeat_n(name.clone(), kept(item)))
                    .collect()
            }),
            DeviceCoord::Host(_) | DeviceCoord::Device(_) => Names::default(),
        }
    }

    /// The modes from `begin` to `end - 1` as one.
    pub(super) fn group(&self, begin: usize, end: usize) -> Names {
        self.map(|names| {
            let (before, rest) = names.split_at(begin.min(names.len()));
            let (inside, after) = rest.split_at((end.saturating_sub(begin)).min(rest.len()));
            let group = Arc::from(format!("({})", inside.join(",")));
            before.iter().cloned().chain([group]).chain(after.iter().cloned()).collect()
        })
    }

    pub(super) fn select(&self, modes: &[usize]) -> Names {
        self.map(|names| modes.iter().filter_map(|mode| names.get(*mode).cloned()).collect())
    }

    /// The tiles along the modes from `first` on.
    fn tiles(names: &[Arc<str>], first: usize) -> impl Iterator<Item = Arc<str>> + '_ {
        names.iter().enumerate().map(move |(mode, name)| {
            if mode < first { Arc::from(format!("tiles of {name}")) } else { name.clone() }
        })
    }

    /// The modes after a divide by a tiler of `rank` modes: (tile modes, tiles).
    pub(super) fn zipped(&self, rank: usize) -> Names {
        self.map(|names| {
            let tile = names.get(..rank.min(names.len())).unwrap_or_default();
            let tiles: Vec<Arc<str>> = Names::tiles(names, rank).collect();
            [tile, &tiles].map(|names| Arc::from(format!("({})", names.join(",")))).to_vec()
        })
    }

    /// The modes of the tile one by one, then the tiles: `flat`; or the modes of the tile as one.
    pub(super) fn divided(&self, rank: usize, flat: bool) -> Names {
        self.map(|names| {
            let tile = names.get(..rank.min(names.len())).unwrap_or_default();
            let tile =
                if flat { tile.to_vec() } else { vec![format!("({})", tile.join(",")).into()] };
            tile.into_iter().chain(Names::tiles(names, rank)).collect()
        })
    }
}

/// ` of (m,k)`, or nothing.
impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(names) => write!(f, " of ({})", names.join(",")),
            None => Ok(()),
        }
    }
}

impl<'b, E: Engine<'b>> Tensor<E> {
    /// The same tensor with a name for each of its modes. Names follow their modes through slices, divides and
    /// tiles, and stand in the text of the tensor and of its errors.
    ///
    /// A number of names that is not the number of modes is an error of the build.
    ///
    /// ```
    /// use tilewright::ir::{Global, Kernel, Target};
    /// use tilewright::layout::{layout, tiler};
    /// use tilewright::tensor::Tensor;
    ///
    /// let errors = Kernel::<(Global<f32>,)>::build("k", Target::SM_80, |k, (a,)| {
    ///     let a = Tensor::new(k, a, layout!((64, 32) : (32, 1))).named(k, ["m", "k"]);
    ///     let tiles = a.local_tile(k, &tiler!(16, 8), (k.block_idx().x, ..));
    ///     assert_eq!(tiles.to_string(), "ptr<f32, gmem, align<4>> o (16,8,4):(32,1,8) of (m,k,tiles of k)");
    ///     tiles.slice(k, (.., 0));
    /// })
    /// .unwrap_err();
    /// assert!(errors.to_string().contains("of (m,k,tiles of k): 3 modes are needed, 2 were given"));
    /// ```
    #[track_caller]
    pub fn named<N: Into<String>>(
        &self,
        k: &Body<'b, '_>,
        names: impl IntoIterator<Item = N>,
    ) -> Self {
        if self.poisoned {
            return self.poison();
        }
        let names: Vec<Arc<str>> = names.into_iter().map(|name| Arc::from(name.into())).collect();
        let (modes, found) = (self.rank(), names.len());
        if modes != found {
            self.failed(k, "named", TensorErrorKind::NameCount { modes, names: found });
            return self.clone();
        }
        Tensor { names: Names::new(names), ..self.clone() }
    }
}
