//! [`ConvolutionConfig`]: the tile, the stages and the epilogue of a convolution kernel. `new`
//! chooses tile and stages for a problem, `candidates` lists what a tuner should try.

use std::fmt;
use std::str::FromStr;

use crate::ir::Target;

use super::error::ConvolutionError;
use super::problem::ConvolutionProblem;
use crate::kernels::gemm::Activation;

/// Threads per warp group.
pub(super) const GROUP: u32 = 128;
/// Outputs of a tile per consumer warp group, the M of `wgmma`.
pub(super) const ROWS: u32 = 64;
/// Consumer warp groups.
pub(super) const CONSUMERS: u32 = 2;
/// Output channels in one TMA store: 128 bytes, a row of the swizzle.
pub(super) const STORE: u32 = 64;
/// Bytes per element.
const BYTES: u32 = 2;
/// The SMs of an H100 (SXM) or H200, for which tiles are chosen.
const SMS: u64 = 132;

/// Whether the kernel adds a bias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ConvolutionBias {
    /// Adds nothing.
    #[default]
    Absent,
    /// Adds one value per output channel, of the element type.
    PerChannel,
}

/// The parameters that are fixed when a [`Convolution`](super::Convolution) kernel is built.
///
/// Get one from [`new`](ConvolutionConfig::new), or measure the
/// [`candidates`](ConvolutionConfig::candidates), and pass it to
/// [`Convolution::new`](super::Convolution::new). Every configuration runs every problem; tile,
/// stages and store steps affect only the speed. A configuration prints as a name, which parses
/// back:
///
/// ```
/// use tilewright::ir::Target;
/// use tilewright::kernels::convolution::{ConvolutionBias, ConvolutionConfig, ConvolutionProblem};
/// use tilewright::kernels::gemm::Activation;
/// use tilewright::tensor::copy::Filter;
///
/// let problem = ConvolutionProblem::new([32, 56, 56, 256], 256, [Filter::new(3).padding(1); 2]);
/// let config = ConvolutionConfig::new(Target::SM_90A, &problem)?;
/// assert_eq!(config.to_string(), "sm90a_128x256x64_s4_o4");
/// let fused = ConvolutionConfig {
///     bias: ConvolutionBias::PerChannel,
///     activation: Some(Activation::Relu),
///     ..config
/// };
/// assert_eq!("sm90a_128x256x64_s4_o4_bias_relu".parse(), Ok(fused));
///
/// // A narrow tile for few output channels. There is only one step, so it overlaps with nothing.
/// let problem = ConvolutionProblem::new([32, 56, 56, 64], 64, [Filter::new(1); 2]);
/// let config = ConvolutionConfig::new(Target::SM_90A, &problem)?;
/// assert_eq!(config.to_string(), "sm90a_128x64x64_s8_o1");
/// # Ok::<(), tilewright::kernels::convolution::ConvolutionError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvolutionConfig {
    /// The target to build for, `sm_90a`.
    pub target: Target,
    /// The pixels and output channels that a block computes, and the channels of one step: 128, one
    /// of 64, 128, 192 and 256, and 64.
    pub tile: [u32; 3],
    /// Steps that the producer may be ahead of the consumers, 2 to 8. More of them hide more
    /// latency, if shared memory has room.
    pub stages: u32,
    /// Over how many steps of the next tile a tile is stored, each with the same number of stores
    /// of 64 channels. If a tile has fewer steps (filter positions times blocks of 64 channels), it
    /// gets steps with zeros.
    pub store_steps: u32,
    /// Whether the kernel adds a bias.
    pub bias: ConvolutionBias,
    /// The function that is applied last.
    pub activation: Option<Activation>,
}

impl ConvolutionConfig {
    /// Chooses the configuration for a problem, without bias and activation: the tile with the
    /// fewest bytes per SM, counted over all waves of an H200.
    ///
    /// # Errors
    /// [`ConvolutionError::Target`], and those of [`ConvolutionProblem::check`].
    #[inline]
    pub fn new(target: Target, problem: &ConvolutionProblem) -> Result<Self, ConvolutionError> {
        problem.check()?;
        // The first of equal ones has the widest tile.
        let tiles = [256, 192, 128, 64].map(|columns| Self::of_tile(target, columns, problem));
        let config = tiles.into_iter().min_by_key(|config| config.cost(problem));
        let config = config.unwrap_or_else(|| Self::of_tile(target, 256, problem));
        config.check()?;
        Ok(config)
    }

    /// Returns configurations worth measuring for a problem, without bias and activation. The
    /// choice of [`new`](ConvolutionConfig::new) comes first; the others have other tiles, and
    /// store a tile at once or over as many steps as there are stores.
    #[inline]
    pub fn candidates(target: Target, problem: &ConvolutionProblem) -> Vec<Self> {
        let Ok(first) = Self::new(target, problem) else { return Vec::new() };
        let mut all = vec![first];
        for columns in [256, 192, 128, 64] {
            let config = Self::of_tile(target, columns, problem);
            let at_once = ConvolutionConfig { store_steps: 1, ..config };
            let spread = ConvolutionConfig { store_steps: config.stores(), ..config };
            for config in [config, at_once, spread] {
                if !all.contains(&config) {
                    all.push(config);
                }
            }
        }
        all
    }

    /// Returns the configuration with a tile of `columns` output channels: as many stages as fit,
    /// and no more store steps than the problem has steps.
    #[inline]
    fn of_tile(target: Target, columns: u32, problem: &ConvolutionProblem) -> Self {
        let tile = [CONSUMERS * ROWS, columns, 64];
        let (bias, activation) = (ConvolutionBias::Absent, None);
        let config =
            ConvolutionConfig { target, tile, stages: 0, store_steps: 1, bias, activation };
        let room = target.max_shared_bytes().saturating_sub(config.shared_bytes());
        let stages = (room / config.stage_bytes().max(1)).clamp(2, 8) as u32;
        let stores = config.stores();
        let fits = |steps: &u32| {
            stores.is_multiple_of(*steps) && u64::from(*steps) <= config.steps(problem)
        };
        let store_steps = (1..=stores).rev().find(fits).unwrap_or(1);
        ConvolutionConfig { stages, store_steps, ..config }
    }

    /// Estimates the bytes that an SM loads and stores: those of a tile, times the waves.
    #[inline]
    fn cost(&self, problem: &ConvolutionProblem) -> u64 {
        let [rows, columns, _] = self.tile.map(u64::from);
        let tiles = self.tiles(problem).into_iter().fold(1, u64::saturating_mul);
        let stored = rows * columns * u64::from(BYTES);
        let of_tile = self.steps(problem).saturating_mul(self.stage_bytes()).saturating_add(stored);
        tiles.div_ceil(SMS).saturating_mul(of_tile)
    }

    /// Returns the problem's tiles of pixels and of output channels.
    #[inline]
    pub(super) fn tiles(&self, problem: &ConvolutionProblem) -> [u64; 2] {
        let [rows, columns, _] = self.tile.map(|size| u64::from(size.max(1)));
        [problem.rows().div_ceil(rows), u64::from(problem.out_channels).div_ceil(columns)]
    }

    /// Returns the blocks of channels that each filter position has, so that a tile has at least
    /// `store_steps` steps. TMA reads zeros in the blocks past the last channel.
    #[inline]
    pub(super) fn channel_blocks(&self, problem: &ConvolutionProblem) -> u64 {
        let blocks = problem.channels.div_ceil(self.tile[2].max(1));
        let needed = u64::from(self.store_steps).div_ceil(problem.positions().max(1));
        needed.max(blocks.into())
    }

    /// Returns a tile's steps.
    #[inline]
    pub(super) fn steps(&self, problem: &ConvolutionProblem) -> u64 {
        self.channel_blocks(problem).saturating_mul(problem.positions())
    }

    /// Returns how many TMA stores a consumer's part of a tile takes.
    #[inline]
    pub(super) fn stores(&self) -> u32 {
        self.tile[1] / STORE
    }

    /// Returns how many TMA stores a consumer may have in flight. They use its staging memory in
    /// turn, so they divide a tile's stores.
    #[inline]
    pub(super) fn store_slots(&self) -> u32 {
        let stores = self.stores();
        if stores.is_multiple_of(2) { 2 } else { stores }
    }

    /// Returns the threads per block, for example to compute the kernel's occupancy.
    pub fn threads(&self) -> u32 {
        GROUP * (1 + CONSUMERS)
    }

    #[inline]
    fn stage_bytes(&self) -> u64 {
        let [rows, columns, depth] = self.tile.map(u64::from);
        rows.saturating_add(columns).saturating_mul(depth).saturating_mul(BYTES.into())
    }

    /// Returns the shared memory per block, in bytes. Use it to see whether another stage fits.
    #[inline]
    pub fn shared_bytes(&self) -> u64 {
        let staging = (CONSUMERS * ROWS * STORE * BYTES).saturating_mul(self.store_slots());
        // 512 bytes are for barriers and alignment.
        u64::from(self.stages)
            .saturating_mul(self.stage_bytes())
            .saturating_add(u64::from(staging))
            .saturating_add(512)
    }

    /// Checks that a kernel exists for this configuration. Call it after you have changed a field;
    /// [`Convolution::new`](super::Convolution::new) calls it too.
    ///
    /// # Errors
    /// [`ConvolutionError::Target`], [`ConvolutionError::Config`],
    /// [`ConvolutionError::SharedMemory`].
    #[inline]
    pub fn check(&self) -> Result<(), ConvolutionError> {
        let ConvolutionConfig { target, tile, stages, store_steps, .. } = *self;
        if !target.offers(Target::SM_90A) {
            return Err(ConvolutionError::Target { target });
        }
        let refused = |rule| Err(ConvolutionError::Config { config: self.to_string(), rule });
        if ![64, 128, 192, 256].map(|columns| [CONSUMERS * ROWS, columns, 64]).contains(&tile) {
            return refused("the tile must be 128x64x64, 128x128x64, 128x192x64 or 128x256x64");
        }
        if !(2..=8).contains(&stages) {
            return refused("the stage count must be 2 to 8");
        }
        if store_steps == 0 || !self.stores().is_multiple_of(store_steps) {
            return refused("the store steps must divide the tile's stores, one per 64 channels");
        }
        let (needed, available) = (self.shared_bytes(), target.max_shared_bytes());
        if needed > available {
            return Err(ConvolutionError::SharedMemory { needed, available });
        }
        Ok(())
    }
}

/// Prints the configuration's name: target, tile, `s` and the stages, `o` and the store steps,
/// `bias` if there is one, `relu` or `gelu`.
impl fmt::Display for ConvolutionConfig {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConvolutionConfig { target, tile: [rows, columns, depth], .. } = *self;
        write!(f, "sm{}{}", target.sm(), if target.arch_specific() { "a" } else { "" })?;
        write!(f, "_{rows}x{columns}x{depth}_s{}_o{}", self.stages, self.store_steps)?;
        if self.bias == ConvolutionBias::PerChannel {
            f.write_str("_bias")?;
        }
        self.activation.map_or(Ok(()), |activation| write!(f, "_{}", activation.name()))
    }
}

impl FromStr for ConvolutionConfig {
    type Err = ConvolutionError;

    /// Parses a configuration's name. [`check`](ConvolutionConfig::check) says whether a kernel
    /// exists for it.
    #[inline]
    fn from_str(name: &str) -> Result<Self, ConvolutionError> {
        let parse = || -> Option<ConvolutionConfig> {
            let mut words = name.split('_').peekable();
            let target = format!("sm_{}", words.next()?.strip_prefix("sm")?).parse().ok()?;
            let sizes: Option<Vec<u32>> =
                words.next()?.split('x').map(|size| size.parse().ok()).collect();
            let tile = sizes?.try_into().ok()?;
            let stages = words.next()?.strip_prefix('s')?.parse().ok()?;
            let store_steps = words.next()?.strip_prefix('o')?.parse().ok()?;
            let bias = match words.next_if_eq(&"bias") {
                Some(_) => ConvolutionBias::PerChannel,
                None => ConvolutionBias::Absent,
            };
            let activation = match words.next() {
                Some(word) => Some(Activation::ALL.into_iter().find(|one| one.name() == word)?),
                None => None,
            };
            Some(ConvolutionConfig { target, tile, stages, store_steps, bias, activation })
        };
        // Refuses numbers with leading zeros, and words at the end.
        let config = parse().filter(|config| config.to_string() == name);
        config.ok_or_else(|| ConvolutionError::Name { name: name.to_owned() })
    }
}
