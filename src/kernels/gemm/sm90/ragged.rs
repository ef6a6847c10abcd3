//! Ragged GEMM: problems of different sizes in one launch. Their table lies on the device, and a
//! first kernel turns it into tensor maps for the GEMM kernel. If the problems differ only in their
//! row counts, grouped GEMM (`groups.rs`) is enough.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::arch::Major;
use crate::ir::types::Scalar;
use crate::ir::{Element, Global, GlobalMut, Kernel, KernelOptions, TensorMap, TensorMapMut, Val};
use crate::runtime::{ArgList, Buffer, Declared, Device, Function, Grid, LoadOptions, Mapped};
use crate::tensor::copy::MapArray;

use crate::kernels::gemm::config::GemmConfig;
use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::methods::{LoadMethod, Schedule, StoreMethod};
use crate::kernels::gemm::config::problem::GemmProblem;
use crate::kernels::gemm::elements::{A, B, D, with_elements};
use crate::kernels::gemm::kernel::AnyGemm;
use crate::kernels::gemm::sm90::input::MapArgs;
use crate::kernels::ready::Launch;

/// Elements per tensor map, 8 bytes each.
const MAP: u32 = 16;
/// Elements of the three maps (A, B, D) of a problem.
pub(crate) const MAPS: u32 = 3 * MAP;
/// Threads per block of the kernel that makes the maps. Each thread makes those of one problem.
const THREADS: u32 = 64;

/// One problem of a [ragged](crate::kernels::gemm::BatchMode::Ragged) batch: its sizes, and where
/// its matrices lie in the launch's buffers.
///
/// A launch takes the [`words`](RaggedProblem::words) of all problems in a buffer,
/// [`GemmArgs::products`], written by you or by a kernel. The host only knows the largest sizes, as
/// a [`GemmProblem`], and how many problems there are, as its `batch`. Each problem computes
/// `D = A B` as it would on its own. If all sizes are equal, this is a batch of matrices at
/// arbitrary addresses.
///
/// If M, N or K is 0, nothing is written. Starts and pitches of A, B and D must be multiples of 16
/// bytes, and with `pairs` N must be even. D's rows are stored in units of 16 bytes: up to 14 bytes
/// after a row's last element may be overwritten, if they are before the next row. The device
/// checks none of this. Other values, and sizes beyond those of the problem, give a wrong D or a
/// fault.
///
/// A launch runs two kernels: one makes tensor maps for the matrices, the other multiplies.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::types::Scalar;
/// use tilewright::ir::f16;
/// use tilewright::kernels::gemm::{
///     BatchMode, Gemm, GemmArgs, GemmConfig, GemmProblem, Machine, RaggedProblem,
/// };
/// use tilewright::runtime::Device;
///
/// // 70 x 24 x 16, nothing, and 8 x 136 x 40.
/// let sizes: [[u32; 3]; 3] = [[70, 24, 16], [0, 64, 64], [8, 136, 40]];
/// let (mut starts, mut table) = ([0; 3], Vec::new());
/// for [m, n, k] in sizes {
///     // Compact matrices, one after the other: A and D are row-major, B column-major.
///     let pitches = [k, k, n].map(u64::from);
///     table.extend(RaggedProblem { sizes: [m, n, k], starts, pitches }.words());
///     [m * k, n * k, m * n].iter().zip(&mut starts).for_each(|(len, start)| *start += u64::from(*len));
/// }
/// let [len_a, len_b, len_d] = starts.map(|len| len as usize);
/// let problem = GemmProblem { batch: 3, ..GemmProblem::new(70, 136, 64) };
/// let wanted = GemmConfig { batch: BatchMode::Ragged, ..GemmConfig::sm90(Scalar::F16, [128, 128]) };
/// let device = Device::sim()?;
/// let gemm = Gemm::<f16>::new(wanted.best(&problem, &Machine::of(&device))?)?.load(&device)?;
/// let a = device.upload(&vec![f16::from_f32(0.5); len_a])?;
/// let b = device.upload(&vec![f16::from_f32(2.0); len_b])?;
/// let (mut d, table) = (device.zeros::<f16>(len_d)?, device.upload(&table)?);
/// gemm.launch(&problem, GemmArgs::new(&a, &b, &mut d).products(&table))?;
/// let d = d.to_vec()?;
/// assert!(d[..70 * 24].iter().all(|x| x.to_f32() == 16.0));
/// assert!(d[70 * 24..].iter().all(|x| x.to_f32() == 40.0));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`GemmArgs::products`]: crate::kernels::gemm::GemmArgs::products
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RaggedProblem {
    /// M, N and K.
    pub sizes: [u32; 3],
    /// The offsets of A, B and D in their buffers, in elements.
    pub starts: [u64; 3],
    /// The leading dimensions of A, B and D, in elements: from one row to the next, or from one
    /// column to the next if columns are contiguous.
    pub pitches: [u64; 3],
}

impl RaggedProblem {
    /// How many elements a problem has in a launch's table: the length of
    /// [`words`](RaggedProblem::words).
    pub const WORDS: u32 = 9;

    /// Returns the problem's entry in the table: sizes, starts, pitches. Concatenate those of all
    /// problems and upload them.
    #[inline]
    pub fn words(&self) -> [i64; Self::WORDS as usize] {
        let RaggedProblem { sizes: [m, n, k], starts: [a, b, d], pitches } = *self;
        [m.into(), n.into(), k.into(), a, b, d, pitches[0], pitches[1], pitches[2]]
            .map(|word: u64| word.cast_signed())
    }
}

crate::params! {
    /// The parameters of the kernel that makes the maps.
    pub(crate) struct MakeParams => MakeAt<'b> {
        a: TensorMap<A, 3>,
        b: TensorMap<B, 3>,
        d: (TensorMapMut<D, 3>, GlobalMut<D>),
        from_a: Global<A>,
        from_b: Global<B>,
        table: Global<i64>,
        maps: GlobalMut<u64>,
        count: i32,
    }
}

/// Returns the maps of one operand for all problems: 0 is A, 1 is B, 2 is D.
#[inline]
pub(crate) fn maps_of<'a>(maps: Val<'a, Global<u64>>, operand: u32) -> MapArray<'a> {
    MapArray { first: maps.offset(operand * MAP), words: MAPS }
}

/// Builds the kernel that makes the maps.
#[inline]
fn build(config: &GemmConfig) -> Result<Kernel<Declared>, GemmError> {
    let options = KernelOptions::default().block([THREADS, 1, 1]);
    let GemmConfig { major_a, major_b, programmatic, .. } = *config;
    let per_element = config.accumulators_per_element();
    let kernel = with_elements(config, || {
        let target = config.target;
        Kernel::build_as::<(MakeParams,), _>(options, "maps", target, |k, (args,)| {
            if programmatic {
                k.griddepcontrol_launch_dependents();
                k.griddepcontrol_wait();
            }
            let product = k.block_idx().x * THREADS as i32 + k.thread_idx().x;
            let MakeAt { a, b, d: (d, to_d), from_a, from_b, table, maps, count } = args;
            k.if_(product.lt(count), |k| {
                let table = table.offset(product * RaggedProblem::WORDS);
                let [m, n, depth] = [0, 1, 2].map(|at| table.load(at));
                k.if_(m.gt(0) & n.gt(0) & depth.gt(0), |k| {
                    let maps = maps.offset(product * MAPS);
                    let [start_a, start_b, start_d] = [3, 4, 5].map(|at| table.load(at));
                    let [pitch_a, pitch_b, pitch_d] = [6, 7, 8].map(|at| table.load(at));
                    let one = k.constant(1u64);
                    let size = |scalar: Scalar| u64::from(scalar.size_bytes());
                    let dims = |major, lines, columns| match major {
                        Major::K => [columns, lines, one],
                        Major::Mn => [lines, columns, one],
                    };
                    let [m, n, depth] = [m, n, depth].map(|size| size.cvt::<u64>());
                    let [pitch_a, pitch_b, pitch_d] =
                        [pitch_a, pitch_b, pitch_d].map(|pitch| pitch.cvt::<u64>());
                    // There is one matrix, so the batch stride can be anything.
                    let strides = [pitch_a * size(A::scalar()); 2];
                    let dims_a = dims(major_a, m, depth);
                    a.tensormap_replace(maps, from_a.offset(start_a), dims_a, &strides);
                    let (to, strides) = (maps.offset(MAP), [pitch_b * size(B::scalar()); 2]);
                    let dims_b = dims(major_b, n, depth);
                    b.tensormap_replace(to, from_b.offset(start_b), dims_b, &strides);
                    let (to, strides) = (maps.offset(2 * MAP), [pitch_d * size(D::scalar()); 2]);
                    let dims_d = dims(Major::K, m, n / u64::from(per_element));
                    d.tensormap_replace(to, to_d.offset(start_d), dims_d, &strides);
                });
            });
        })
    });
    Ok(kernel?)
}

/// The kernel that makes tensor maps on a device, and the workspace that holds them.
///
/// Launches on several streams share the workspace. The runtime serialises them, as all launches
/// that use the same buffer.
pub(crate) struct Maps {
    device: Device,
    make: Function<Declared>,
    maps: Mutex<Buffer<u64>>,
}

/// The maps of all problems, and their table.
#[derive(Clone, Copy)]
pub(crate) struct Made<'x> {
    pub(crate) maps: &'x Buffer<u64>,
    pub(crate) table: &'x Buffer<i64>,
    pub(crate) count: i32,
}

impl Maps {
    #[inline]
    pub(crate) fn load(
        config: &GemmConfig,
        options: LoadOptions<'_>,
        device: &Device,
    ) -> Result<Maps, GemmError> {
        Ok(Maps {
            make: device.load_with(options, &build(config)?)?,
            device: device.clone(),
            maps: Mutex::new(device.zeros(1)?),
        })
    }

    /// Makes the maps of all problems from the templates for A, B and D.
    #[inline]
    pub(crate) fn make(
        &self,
        launch: &Launch<'_, AnyGemm>,
        MapArgs { a, b }: &MapArgs<'_>,
        d: &mut Mapped<'_>,
        table: &Buffer<i64>,
        count: i32,
    ) -> Result<MutexGuard<'_, Buffer<u64>>, GemmError> {
        let mut maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        let needed = count as usize * MAPS as usize;
        if maps.len() < needed {
            *maps = self.device.zeros(needed)?;
        }
        let blocks = count.cast_unsigned().div_ceil(THREADS);
        // In the order of `MakeParams`.
        let mut list = ArgList::default();
        list.tensor_map(&a.map);
        list.tensor_map(&b.map);
        list.mapped_rows(d);
        list.buffer(a.from);
        list.buffer(b.from);
        list.buffer(table.into());
        list.buffer_mut((&mut *maps).into());
        list.scalars([count]);
        launch.start_other(&self.make, Grid::new([blocks, 1, 1], [THREADS, 1, 1]), list)?;
        Ok(maps)
    }
}

impl GemmConfig {
    pub(crate) fn ragged_rule(&self) -> Option<&'static str> {
        if self.schedule != Schedule::Cooperative {
            Some("a ragged batch needs the cooperative schedule")
        } else if self.swap || self.cluster != [1, 1] || self.splits.is_split() {
            Some("a ragged batch does not support swapped operands, clusters or splits")
        } else if self.load != LoadMethod::Tensor
            || !matches!(self.store, StoreMethod::Rows | StoreMethod::Chunks)
        {
            Some("a ragged batch must load A and B with TMA, and store D with `rows` or `chunks`")
        } else if self.epilogue.beta || self.epilogue.bias.is_some() {
            Some("a ragged batch does not support C or a bias: write your own epilogue")
        } else {
            None
        }
    }

    /// Checks the table given to a launch. Returns `None` for a kernel that is not ragged.
    pub(crate) fn products<'h>(
        &self,
        problem: &GemmProblem,
        given: Option<&'h Buffer<i64>>,
    ) -> Result<Option<&'h Buffer<i64>>, GemmError> {
        if self.is_ragged() != given.is_some() {
            return Err(GemmError::Products { needed: self.is_ragged() });
        }
        let needed = u64::from(problem.batch) * u64::from(RaggedProblem::WORDS);
        match given {
            Some(table) if (table.len() as u64) < needed => {
                let (operand, found) = ("the table of products", table.len() as u64);
                Err(GemmError::BufferLength { operand, found, needed })
            }
            given => Ok(given),
        }
    }
}
