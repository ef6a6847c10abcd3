//! [`Names`] follow modes through operations.

use std::fmt;
use std::sync::Arc;

use super::coord::{CoordRef, Slot};
use super::divide::Arrange;
use super::error::NameError;
use super::layout::Layout;
use super::tiler::TilerRef;

type Name = Arc<str>;

/// The names of modes, one for each; empty for modes without names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Names(Option<Arc<[Name]>>);

impl Names {
    /// Checks that there are `modes` different names and makes them the names of the modes.
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

    /// The names; nothing if there are none.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|names| names.iter()).map(|name| name.as_ref())
    }

    /// The one mode of a name.
    #[inline]
    pub(crate) fn find(&self, name: &str) -> Result<usize, NameError> {
        let mut found = self.iter().enumerate().filter(|(_, other)| *other == name);
        match (found.next(), found.next()) {
            (Some((mode, _)), None) => Ok(mode),
            (Some(_), Some(_)) => Err(NameError::Repeated { name: name.to_owned() }),
            (None, _) => Err(NameError::Missing { name: name.to_owned(), names: self.joined() }),
        }
    }

    /// All as the name of one mode: `(m,k)`.
    #[inline]
    fn joined(&self) -> String {
        format!("({})", self.iter().collect::<Vec<_>>().join(","))
    }

    /// The names of new modes, made from the present ones.
    fn map(&self, f: impl FnOnce(&[Name]) -> Vec<Name>) -> Names {
        Names(self.0.as_ref().map(|names| f(names).into()))
    }

    /// The modes that a slice keeps. `kept` is the number of remaining parts of each mode; all
    /// parts have its name.
    pub(crate) fn slice(&self, kept: impl IntoIterator<Item = usize>) -> Names {
        self.map(|names| {
            let each = names.iter().zip(kept);
            each.flat_map(|(name, kept)| std::iter::repeat_n(name.clone(), kept)).collect()
        })
    }

    /// The modes that a host coordinate keeps.
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

    /// The modes from `begin` to `end - 1` as one.
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

    /// The modes of a partition before the thread is chosen: (thread, value, the modes ..).
    #[inline]
    pub(crate) fn by_thread(&self) -> Names {
        let front = ["thread", "value"].map(Name::from);
        self.map(|names| front.into_iter().chain(names.iter().cloned()).collect())
    }

    /// The modes after a product that puts each tile mode beside its block mode. Modes that the
    /// block lacks have tiles alone.
    #[inline]
    pub(crate) fn interleaved(&self, rank: usize) -> Names {
        let lacking = |names: &[Name]| rank.saturating_sub(names.len());
        self.map(|names| {
            let tiles = std::iter::repeat_n(Name::from("tiles"), lacking(names));
            names.iter().cloned().chain(tiles).collect()
        })
    }

    /// The modes after a divide or a product by `tiler` with the result `made`: each mode as its
    /// tile and its tiles, or arranged. A tiler of the whole sees one mode, `(m,k)`; `pair`
    /// computes its result before the arrangement.
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

    /// As [`tiled`](Names::tiled), flat, into `rank` modes; the first `tile` modes are those of the
    /// tile.
    #[inline]
    pub(crate) fn flat(&self, tiler: TilerRef<'_>, tile: usize, rank: usize) -> Names {
        match tiler.by_mode() {
            Some(modes) => self.by_mode(Some(Arrange::Flat), modes),
            None => self.as_one(tile, rank),
        }
    }

    /// After a divide by a tiler of `rank` modes.
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

    /// After a divide of all modes together: `tile` modes of the tile, and those of the tiles.
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

/// ` of (m,k)`, or nothing.
impl fmt::Display for Names {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(names) if !names.is_empty() => write!(f, " of {}", self.joined()),
            _ => Ok(()),
        }
    }
}
