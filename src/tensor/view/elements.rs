//! Visits a tensor's elements one by one or as vectors. Whole-tensor operations such as copies and
//! [`clear`](crate::tensor::copy::clear) are loops over it.

use std::collections::HashMap;

use crate::ir::{Body, Element};
use crate::layout::{Int, Layout, LayoutError};

use super::engine::{Readable, Writable};
use super::tensor::Tensor;
use crate::tensor::error::TensorErrorKind;

/// Elements that one access moves, as indices from an engine. In memory they are contiguous.
pub(in crate::tensor) struct Group<E> {
    pub(in crate::tensor) engine: E,
    pub(in crate::tensor) indices: Vec<i64>,
}

impl<E> Group<E> {
    pub(in crate::tensor) fn first(&self) -> i64 {
        self.indices.first().copied().unwrap_or(0)
    }
}

/// One step of a copy: a group of the source and a group of the destination.
pub(in crate::tensor) struct Step<S, D> {
    pub(in crate::tensor) from: Group<S>,
    pub(in crate::tensor) to: Group<D>,
}

impl<S, D> Step<S, D> {
    /// Copies the group as one vector: one load and one store.
    #[track_caller]
    pub(in crate::tensor) fn move_vector<'b, 'c>(&self)
    where
        'b: 'c,
        S: Readable<'b>,
        D: Writable<'b, Elem = S::Elem>,
    {
        let Step { from, to } = self;
        if let Some(vector) = from.engine.read_vector(&from.indices) {
            to.engine.write_vector(&to.indices, vector);
        }
    }
}

impl<'b, E: Readable<'b>> Tensor<E> {
    /// Returns an engine and an index from it for each element, in coordinate order. All extents
    /// must be static. If strides are symbolic, the engine is moved by the symbolic part once per
    /// distinct value, and the index is the remaining constant.
    #[track_caller]
    pub(in crate::tensor) fn elements(
        &self,
        k: &Body<'b, '_>,
    ) -> Result<Vec<(E, i64)>, TensorErrorKind> {
        self.elements_of(k, &self.layout)
    }

    /// Like [`elements`](Tensor::elements), in the order of another layout over the same indices.
    #[track_caller]
    #[inline]
    fn elements_of(
        &self,
        k: &Body<'b, '_>,
        layout: &Layout,
    ) -> Result<Vec<(E, i64)>, TensorErrorKind> {
        if let Some(extent) = layout.shape().leaves().iter().find(|extent| !extent.is_static()) {
            let (extent, shape) = (extent.to_string(), self.shape().to_string());
            return Err(TensorErrorKind::DynamicExtent { extent, shape });
        }
        let mut moved: HashMap<Int, E> = HashMap::new();
        let mut all = Vec::new();
        for index in layout.symbolic_indices()? {
            let number = index.constant_part();
            let symbols = index.sub(&number.into())?;
            let engine = match moved.get(&symbols) {
                Some(engine) => engine.clone(),
                None => {
                    let engine = self.engine.moved(k, &symbols)?;
                    moved.insert(symbols, engine.clone());
                    engine
                }
            };
            all.push((engine, number));
        }
        Ok(all)
    }

    /// Returns the engine at a coordinate of three host values.
    #[track_caller]
    pub(in crate::tensor) fn engine_at(
        &self,
        k: &Body<'b, '_>,
        coord: (i64, i64, i64),
    ) -> Result<E, TensorErrorKind> {
        let index = self.layout.crd2idx(coord)?;
        let number = index.constant_part();
        Ok(self.engine.moved(k, &index.sub(&number.into())?)?.at(number))
    }

    /// Splits the elements of `layout`, which indexes the same memory, into groups of `count`. In
    /// memory the elements of a group must be contiguous.
    #[track_caller]
    pub(in crate::tensor) fn groups(
        &self,
        k: &Body<'b, '_>,
        layout: &Layout,
        count: usize,
    ) -> Result<Vec<Group<E>>, TensorErrorKind> {
        let elements = self.elements_of(k, layout)?;
        let (len, count) = (elements.len(), count.max(1));
        if len % count != 0 {
            let (count, atom) = (len as i64, count as i64);
            return Err(TensorErrorKind::Atoms { what: "values", count, atom });
        }
        let mut groups: Vec<Group<E>> = Vec::with_capacity(len / count);
        for (i, (engine, index)) in elements.into_iter().enumerate() {
            match groups.last_mut() {
                Some(group) if i % count != 0 => group.indices.push(index),
                _ => groups.push(Group { engine, indices: vec![index] }),
            }
        }
        Ok(groups)
    }
}

/// How a copy splits into vectors: their count, and the coordinates that one vector covers.
pub(in crate::tensor) struct Vectors {
    /// Elements per vector, a power of two.
    pub(in crate::tensor) elements: u32,
    pub(in crate::tensor) count: i64,
    pub(in crate::tensor) vector: Layout,
}

impl Vectors {
    /// Finds the widest vectors that are contiguous and aligned in both memories. Registers fit any
    /// vector. `whole` can refuse a width for other reasons. Returns `None` if the sizes differ or
    /// an extent is symbolic.
    pub(in crate::tensor) fn of<'b, S: Readable<'b>, D: Readable<'b>>(
        source: &Tensor<S>,
        destination: &Tensor<D>,
        whole: impl Fn(&Self) -> Result<bool, LayoutError>,
    ) -> Result<Option<Vectors>, LayoutError> {
        let (from, to) = (&source.layout, &destination.layout);
        let sizes = (from.size()?.as_static(), to.size()?.as_static());
        let size = match sizes {
            (Some(size), Some(other)) if size == other && size > 0 => size,
            _ => return Ok(None),
        };
        let align = (source.engine.alignment_bytes(), destination.engine.alignment_bytes());
        let (common, align) = match align {
            (Some(a), Some(b)) => (from.max_common_layout(to), a.min(b)),
            (Some(a), None) => (from.max_common_layout(from), a),
            (None, Some(b)) => (to.max_common_layout(to), b),
            (None, None) => (Ok(Layout::trivial()), 1),
        };
        // If symbols hide which elements are contiguous, copy one element at a time.
        let common = common.and_then(|common| common.coalesce()).unwrap_or(Layout::trivial());
        let element = S::Elem::scalar().size_bytes();
        let in_order = common.size()?.to_static()?.unsigned_abs().max(1).trailing_zeros();
        let mut elements = (align.min(16) / element).max(1).min(1 << in_order.min(4));
        loop {
            let found = Vectors {
                elements,
                count: size / i64::from(elements),
                vector: common.composition(&Layout::compact(elements))?,
            };
            let one = elements == 1;
            if one || (found.is_whole(source)? && found.is_whole(destination)? && whole(&found)?) {
                return Ok(Some(found));
            }
            elements /= 2;
        }
    }

    /// Bytes per vector of `T`.
    pub(in crate::tensor) fn bytes<T: Element>(&self) -> u32 {
        self.elements * T::scalar().size_bytes()
    }

    /// Returns the tensor's layout with one vector as the first mode and the vectors as the second.
    #[inline]
    pub(in crate::tensor) fn divide(&self, layout: &Layout) -> Result<Layout, LayoutError> {
        if self.elements == 1 {
            return Layout::concat([&Layout::trivial(), layout]);
        }
        layout.coalesce()?.logical_divide(&self.vector)
    }

    /// Returns whether every vector of a tensor in memory is aligned to its size.
    fn is_whole<'b, E: Readable<'b>>(&self, tensor: &Tensor<E>) -> Result<bool, LayoutError> {
        if tensor.engine.alignment_bytes().is_none() {
            return Ok(true);
        }
        let firsts = match self.divide(&tensor.layout).and_then(|divided| divided.get(&[1])) {
            Ok(firsts) => firsts,
            Err(_) if !tensor.layout.is_static() => return Ok(false),
            Err(error) => return Err(error),
        };
        let length = i64::from(self.elements);
        let indices = firsts.symbolic_indices()?;
        Ok(indices.iter().all(|index| index.divisibility() % length == 0))
    }

    /// Returns the vectors of one of the two tensors.
    #[track_caller]
    pub(in crate::tensor) fn groups<'b, E: Readable<'b>>(
        &self,
        k: &Body<'b, '_>,
        tensor: &Tensor<E>,
    ) -> Result<Vec<Group<E>>, TensorErrorKind> {
        tensor.groups(k, &self.divide(&tensor.layout)?, self.elements as usize)
    }
}
