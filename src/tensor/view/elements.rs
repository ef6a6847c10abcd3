//! The elements of a tensor one by one or in vectors, for what works on all of them.

use std::collections::HashMap;

use crate::ir::{Body, Element};
use crate::layout::{Int, Layout, LayoutError};

use super::engine::{Readable, Writable};
use super::tensor::Tensor;
use crate::tensor::error::TensorErrorKind;

/// Elements of a tensor that are moved together, as indices from an engine on. In memory they follow each other.
pub(in crate::tensor) struct Group<E> {
    pub(in crate::tensor) engine: E,
    pub(in crate::tensor) indices: Vec<i64>,
}

impl<E> Group<E> {
    /// The index of the first element.
    pub(in crate::tensor) fn first(&self) -> i64 {
        self.indices.first().copied().unwrap_or(0)
    }
}

/// The unit of a copy: a group of each of two tensors.
pub(in crate::tensor) struct Step<S, D> {
    pub(in crate::tensor) from: Group<S>,
    pub(in crate::tensor) to: Group<D>,
}

impl<S, D> Step<S, D> {
    /// The elements in one access of each, as a vector.
    #[track_caller]
    pub(in crate::tensor) fn move_vector<'b, 'c>(&self, k: &Body<'c, '_>)
    where
        'b: 'c,
        S: Readable<'b>,
        D: Writable<'b, Elem = S::Elem>,
    {
        let Step { from, to } = self;
        if let Some(vector) = from.engine.read_vector(k, &from.indices) {
            to.engine.write_vector(k, &to.indices, vector);
        }
    }
}

impl<'b, E: Readable<'b>> Tensor<E> {
    /// For each coordinate in order, an engine and the index of the element from it on. The extents are numbers;
    /// where strides have symbols, an engine is moved by them, once for all elements with the same ones, and the
    /// index is the rest.
    #[track_caller]
    pub(in crate::tensor) fn elements(
        &self,
        k: &Body<'b, '_>,
    ) -> Result<Vec<(E, i64)>, TensorErrorKind> {
        self.elements_of(k, &self.layout)
    }

    /// As [`elements`](Tensor::elements), in the order of another layout of the same indices.
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

    /// The engine at a coordinate of three numbers.
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

    /// The elements of `layout`, a layout of the same indices, `count` after `count`. In memory these follow each
    /// other.
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

/// The vectors of a copy: how many there are, and the coordinates of one of them as numbers.
pub(in crate::tensor) struct Vectors {
    /// Elements of a vector, a power of two.
    pub(in crate::tensor) elements: u32,
    pub(in crate::tensor) count: i64,
    pub(in crate::tensor) vector: Layout,
}

impl Vectors {
    /// The widest vectors of two tensors of the same size that are one in each memory; `None` for other sizes, or
    /// where an extent has a symbol. Registers go along with any vector. `whole` refuses vectors for other reasons.
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
        // Where symbols leave it open what follows what, elements are moved one by one.
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

    /// Bytes of a vector of these elements.
    pub(in crate::tensor) fn bytes<T: Element>(&self) -> u32 {
        self.elements * T::scalar().size_bytes()
    }

    /// The layout of a tensor, a vector as the first mode and all vectors as the second one.
    #[inline]
    pub(in crate::tensor) fn divide(&self, layout: &Layout) -> Result<Layout, LayoutError> {
        if self.elements == 1 {
            return Layout::concat([&Layout::trivial(), layout]);
        }
        layout.coalesce()?.logical_divide(&self.vector)
    }

    /// Returns whether all vectors of a tensor in memory start at multiples of their length.
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

    /// The vectors of one of the tensors.
    #[track_caller]
    pub(in crate::tensor) fn groups<'b, E: Readable<'b>>(
        &self,
        k: &Body<'b, '_>,
        tensor: &Tensor<E>,
    ) -> Result<Vec<Group<E>>, TensorErrorKind> {
        tensor.groups(k, &self.divide(&tensor.layout)?, self.elements as usize)
    }
}
