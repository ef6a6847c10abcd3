//! [`Names`] are mode names that follow their modes through operations.
//! [`NamedLayout`](super::NamedLayout) and tensors keep their names here.

use std::fmt;
use std::sync::Arc;

use super::coord::{CoordRef, Slot};
use super::divide::Arrange;
use super::error::NameError;
use super::layout::Layout;
use super::tiler::TilerRef;

type Name = Arc<str>;

/// One name per mode, or nothing if the modes have no names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Names(Option<Arc<[Name]>>);

impl Names {
    /// Makes names for `modes` modes. Checks that there are as many, and that all differ.
    pub(crate) fn new<N: Into<String>>(
        names: impl IntoIterator<Item = N>,
        modes: usize,
    ) -> Result<Names, NameError> {
        let names: Arc<[Name]> = names.into_iter().map(|name| Name::from(name.into())).collect();
        if names.len() != modes {
            return Err(NameError::Count { modes, names: names.len() });
        }
        for (mode, name) in names.iter().enumerate() {
            if name.is_empty() {
                return Err(NameError::Empty { mode });
            }
            if names.iter().take(mode).any(|other| other == name) {
                return Err(NameError::Repeated { name: name.to_string() });
            }
        }
        Ok(Names(Some(names)))
    }

    /// Iterates over the names. If the modes have none, there is nothing to iterate over.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|names| names.iter()).map(|name| name.as_ref())
    }

    /// Returns the only mode with this name.
    #[inline]
    pub(crate) fn find(&self, name: &str) -> Result<usize, NameError> {
        let mut found = self.iter().enumerate().filter(|(_, other)| *other == name);
        match (found.next(), found.next()) {
            (Some((mode, _)), None) => Ok(mode),
            (Some(_), Some(_)) => Err(NameError::Repeated { name: name.to_owned() }),
            (None, _) => Err(NameError::Missing { name: name.to_owned(), names: self.joined() }),
        }
    }

    /// Joins all names into the name of one mode: `(m,k)`.
    #[inline]
    fn joined(&self) -> String {
        format!("({})", self.iter().collect::<Vec<_>>().join(","))
    }

    /// Makes the names of new modes from the present ones.
    fn map(&self, f: impl FnOnce(&[Name]) -> Vec<Name>) -> Names {
        Names(self.0.as_ref().map(|names| f(names).into()))
    }

    /// Returns the names after a slice. `kept` says how many parts of each mode are left; all of
    /// them have its name.
    pub(crate) fn slice(&self, kept: impl IntoIterator<Item = usize>) -> Names {
        self.map(|names| {
            let each = names.iter().zip(kept);
            each.flat_map(|(name, kept)| std::iter::repeat_n(name.clone(), kept)).collect()
        })
    }

    /// Returns the names after a slice at a host coordinate.
    #[inline]
    pub(crate) fn at(&self, coord: CoordRef<'_>) -> Names {
        fn kept(coord: CoordRef<'_>) -> usize {
            match coord.as_leaf() {
                Some(slot) => usize::from(*slot == Slot::All),
                None => coord.children().map(kept).sum(),
            }
        }
        match coord.as_leaf() {
            Some(Slot::All) => self.clone(),
            Some(Slot::At(_)) => self.slice([]),
            None => self.slice(coord.children().map(kept)),
        }
    }

    /// Returns the names after the modes `begin..end` were grouped into one.
    #[inline]
    pub(crate) fn group(&self, begin: usize, end: usize) -> Names {
        self.map(|names| {
            let (before, rest) = names.split_at(begin.min(names.len()));
            let (inside, after) = rest.split_at((end.saturating_sub(begin)).min(rest.len()));
            let group = Name::from(format!("({})", inside.join(",")));
            before.iter().cloned().chain([group]).chain(after.iter().cloned()).collect()
        })
    }

    #[inline]
    pub(crate) fn select(&self, modes: &[usize]) -> Names {
        self.map(|names| modes.iter().filter_map(|mode| names.get(*mode).cloned()).collect())
    }

    /// Returns the names of a partition before a thread is chosen: (thread, value, the modes ..).
    #[inline]
    pub(crate) fn by_thread(&self) -> Names {
        let front = ["thread", "value"].map(Name::from);
        self.map(|names| front.into_iter().chain(names.iter().cloned()).collect())
    }

    /// Returns the names after a product that puts each tile mode beside its block mode. If the
    /// tiler has more modes than the block, these consist of tiles only.
    #[inline]
    pub(crate) fn interleaved(&self, rank: usize) -> Names {
        let lacking = |names: &[Name]| rank.saturating_sub(names.len());
        self.map(|names| {
            let tiles = std::iter::repeat_n(Name::from("tiles"), lacking(names));
            names.iter().cloned().chain(tiles).collect()
        })
    }

    /// Returns the names after a divide or a product by `tiler` whose result is `made`. `arrange`
    /// is how the tiles are arranged, or `None` if each mode holds its tile and its tiles. A tiler
    /// for the whole layout sees a single mode, `(m,k)`; then `pair` must compute the result before
    /// it was arranged.
    pub(crate) fn tiled<E>(
        &self,
        arrange: Option<Arrange>,
        tiler: TilerRef<'_>,
        made: &Layout,
        pair: impl FnOnce() -> Result<Layout, E>,
    ) -> Names {
        match (tiler.by_mode(), arrange) {
            (Some(rank), _) => self.by_mode(arrange, rank),
            (None, None) if made.rank() != 2 => self.clone(),
            (None, Some(Arrange::Flat)) => {
                let tile = pair().ok().and_then(|pair| Some(pair.modes().next()?.rank()));
                self.as_one(tile.unwrap_or(1), made.rank())
            }
            (None, None | Some(Arrange::Zipped | Arrange::Tiled)) => self.as_one(1, made.rank()),
        }
    }

    /// Like [`tiled`](Names::tiled) in the flat arrangement, with `rank` modes. The first `tile`
    /// modes are the tile.
    #[inline]
    pub(crate) fn flat(&self, tiler: TilerRef<'_>, tile: usize, rank: usize) -> Names {
        match tiler.by_mode() {
            Some(modes) => self.by_mode(Some(Arrange::Flat), modes),
            None => self.as_one(tile, rank),
        }
    }

    /// Returns the names after a divide by a tiler with `rank` modes.
    #[inline]
    fn by_mode(&self, arrange: Option<Arrange>, rank: usize) -> Names {
        self.map(|names| {
            let tile = names.get(..rank.min(names.len())).unwrap_or_default();
            let tiles = names
                .iter()
                .enumerate()
                .map(|(mode, name)| if mode < rank { tiles_of(name) } else { name.clone() });
            let one = |names: &[Name]| Name::from(format!("({})", names.join(",")));
            match arrange {
                None => names.to_vec(),
                Some(Arrange::Zipped) => vec![one(tile), one(&tiles.collect::<Vec<_>>())],
                Some(Arrange::Tiled) => [one(tile)].into_iter().chain(tiles).collect(),
                Some(Arrange::Flat) => tile.iter().cloned().chain(tiles).collect(),
            }
        })
    }

    /// Returns the names after a divide of all modes together: `tile` modes of the tile, then the
    /// tiles.
    #[inline]
    fn as_one(&self, tile: usize, rank: usize) -> Names {
        self.map(|names| {
            let whole = match names {
                [name] => name.clone(),
                _ => Name::from(self.joined()),
            };
            let tiles = std::iter::repeat_n(tiles_of(&whole), rank.saturating_sub(tile));
            std::iter::repeat_n(whole, tile).chain(tiles).collect()
        })
    }
}

fn tiles_of(name: &Name) -> Name {
    format!("tiles of {name}").into()
}

/// Prints ` of (m,k)`, or nothing.
impl fmt::Display for Names {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(names) if !names.is_empty() => write!(f, " of {}", self.joined()),
            _ => Ok(()),
        }
    }
}
