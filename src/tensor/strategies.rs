//! Generates random tiled copies for `proptest`, from the thread-value layouts of
//! [`layout::strategies`](crate::layout::strategies). Use it to test code of your own on many
//! copies.
//!
//! ```
//! use proptest::prelude::*;
//! use tilewright::tensor::strategies::tiled_copies;
//! // Each element of the tile is copied once.
//! proptest!(|(copy in tiled_copies(256))| {
//!     prop_assert!(copy.layout_tv().is_bijective().unwrap(), "{}", copy);
//! });
//! ```

use proptest::prelude::*;
use proptest::sample::Index;

use super::atom::{CopyAtom, CopyOp, TiledCopy};
use crate::ir::types::Scalar;
use crate::layout::strategies::threads_and_values;

/// Generates tiled copies of tiles with up to `max_size` elements of 8 to 64 bits. Threads and
/// values come in random orders; the plain copy's vector has up to 128 bits and divides each
/// thread's values.
///
/// ```
/// use proptest::prelude::*;
/// use tilewright::tensor::strategies::tiled_copies;
/// proptest!(|(copy in tiled_copies(256))| {
///     prop_assert_eq!(copy.tiler().product().unwrap(), copy.layout_tv().size().unwrap());
/// });
/// ```
pub fn tiled_copies(max_size: i64) -> impl Strategy<Value = TiledCopy> {
    let dtypes = prop::sample::select(vec![Scalar::F32, Scalar::F16, Scalar::U8, Scalar::F64]);
    (threads_and_values(max_size), dtypes, any::<Index>()).prop_filter_map(
        "no whole vectors",
        |((threads, values), dtype, vector)| {
            let count = u32::try_from(values.to_static().ok()?.size()).ok()?;
            let fits = |bits: &u32| {
                bits.is_multiple_of(dtype.bits()) && count.is_multiple_of(bits / dtype.bits())
            };
            let widths: Vec<u32> = [8, 16, 32, 64, 128].into_iter().filter(fits).collect();
            let bits = widths.get(vector.index(widths.len().max(1)))?;
            let atom = CopyAtom::new(CopyOp::Universal { bits: *bits }).ok()?;
            TiledCopy::new(atom, dtype, &threads, &values).ok()
        },
    )
}
