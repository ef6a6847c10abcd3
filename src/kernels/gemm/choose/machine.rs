//! [`Machine`]: the GPU figures that the cost model needs, with constants for common GPUs.
//! `Machine::of` reads them from a device.

use crate::runtime::{Device, Properties};

/// The figures of a GPU that the cost model uses.
///
/// With the constants, you can rank configurations for a GPU that you do not have. Clocks, caches
/// and memory sizes are NVIDIA's figures; memory bandwidth is 91.4 % of the peak, as measured for
/// streams on an H200. Only the H200 is calibrated: for other GPUs trust the order of
/// configurations, not the times: see
/// [`Prediction::is_calibrated`](crate::kernels::gemm::Prediction::is_calibrated).
///
/// ```
/// use tilewright::ir::{Target, types::Scalar};
/// use tilewright::kernels::gemm::{GemmConfig, GemmProblem, Machine};
/// let wanted = GemmConfig { target: Target::SM_80, ..GemmConfig::sm90(Scalar::Bf16, [128, 128]) };
/// let why = wanted.explain(&GemmProblem::new(4096, 4096, 4096), &Machine::A100)?;
/// assert_eq!((why.sms, why.prediction.is_calibrated), (108, false));
/// # Ok::<(), tilewright::kernels::gemm::GemmError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Machine {
    /// SM count.
    pub sms: u32,
    /// Full clock, in Hz.
    pub clock_hz: f64,
    /// L2 cache size, in bytes.
    pub l2_bytes: f64,
    /// Memory bandwidth that streams reach, in bytes per second.
    pub memory_bytes_per_s: f64,
    /// Power limit, in watts.
    pub power_w: f64,
    /// Shared memory per SM, in bytes.
    pub shared_bytes: u64,
    /// Multiply-adds of 16-bit elements per cycle and SM with `mma.sync` and `f32` accumulators.
    #[cfg_attr(feature = "serde", serde(default = "hopper_mma_sync"))]
    pub mma_sync_per_cycle: f64,
}

/// Records made before this figure was added come from Hopper GPUs.
#[cfg(feature = "serde")]
fn hopper_mma_sync() -> f64 {
    HOPPER_MMA_SYNC
}

/// `mma.sync` reaches 607 TFLOP/s on an H200 at 1980 MHz: 57 % of the rate of `wgmma`.
pub(crate) const HOPPER_MMA_SYNC: f64 = 1160.0;

impl Machine {
    /// NVIDIA H200 (SXM): 132 SMs, 1980 MHz, 60 MiB of L2, 700 W; 4.4 TB/s measured. The only GPU
    /// for which predicted times are calibrated.
    pub const H200: Machine = Machine {
        sms: 132,
        clock_hz: 1.98e9,
        l2_bytes: 60.0 * MIB,
        memory_bytes_per_s: 4.4e12,
        power_w: 700.0,
        shared_bytes: 228 * 1024,
        mma_sync_per_cycle: HOPPER_MMA_SYNC,
    };

    /// NVIDIA H100 SXM: 132 SMs, 1980 MHz, 50 MiB of L2, 3.35 TB/s, 700 W (H100 datasheet; "NVIDIA
    /// H100 Tensor Core GPU Architecture").
    pub const H100: Machine =
        Machine { l2_bytes: 50.0 * MIB, memory_bytes_per_s: REACHED * 3.35e12, ..Machine::H200 };

    /// NVIDIA A100 80GB SXM: 108 SMs, 1410 MHz, 40 MiB of L2, 2.039 TB/s, 400 W, 312 TFLOP/s (A100
    /// 80GB datasheet; "NVIDIA A100 Tensor Core GPU Architecture").
    pub const A100: Machine = Machine {
        sms: 108,
        clock_hz: 1.41e9,
        l2_bytes: 40.0 * MIB,
        memory_bytes_per_s: REACHED * 2.039e12,
        power_w: 400.0,
        shared_bytes: 164 * 1024,
        mma_sync_per_cycle: 1024.0,
    };

    /// NVIDIA GeForce RTX 4090: 128 SMs, 2520 MHz, 72 MiB of L2, 1.008 TB/s, 450 W, 165.2 TFLOP/s
    /// with `f32` accumulators ("NVIDIA Ada GPU Architecture").
    pub const RTX_4090: Machine = Machine {
        sms: 128,
        clock_hz: 2.52e9,
        l2_bytes: 72.0 * MIB,
        memory_bytes_per_s: REACHED * 1.008e12,
        power_w: 450.0,
        shared_bytes: 100 * 1024,
        mma_sync_per_cycle: 256.0,
    };

    /// NVIDIA L40S: 142 SMs, 2520 MHz, 96 MiB of L2, 864 GB/s, 350 W, 362 TFLOP/s (L40S datasheet).
    pub const L40S: Machine = Machine {
        sms: 142,
        l2_bytes: 96.0 * MIB,
        memory_bytes_per_s: REACHED * 8.64e11,
        power_w: 350.0,
        mma_sync_per_cycle: 512.0,
        ..Machine::RTX_4090
    };

    /// Returns how many clusters run at once with one block per SM. A cluster's SMs must be in the
    /// same GPC, so larger clusters leave some SMs idle: 12 of the 132 of an H200.
    #[inline]
    pub(crate) fn clusters(&self, blocks: u32) -> u32 {
        let sms = if blocks > 2 { self.sms - self.sms.div_ceil(11) } else { self.sms };
        (sms / blocks.max(1)).max(1)
    }

    /// Returns the machine for a device: a GPU's own SM count, clock, L2 cache and memory. For the
    /// simulator, returns the H200, to which the model is fitted. Pass the result to
    /// [`GemmConfig::best`](crate::kernels::gemm::GemmConfig::best).
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::kernels::gemm::Machine;
    /// use tilewright::runtime::Device;
    /// assert_eq!(Machine::of(&Device::sim()?), Machine::H200);
    /// # }
    /// # Ok::<(), tilewright::runtime::RuntimeError>(())
    /// ```
    #[inline]
    pub fn of(device: &Device) -> Machine {
        device.properties().as_ref().map_or(Machine::H200, Machine::from)
    }

    /// Returns the bits of all figures, as a hashable key.
    #[inline]
    pub(crate) fn bits(&self) -> [u64; 7] {
        let Machine {
            sms,
            clock_hz,
            l2_bytes,
            memory_bytes_per_s,
            power_w,
            shared_bytes,
            mma_sync_per_cycle,
        } = *self;
        let [clock, l2, memory, power, mma_sync] =
            [clock_hz, l2_bytes, memory_bytes_per_s, power_w, mma_sync_per_cycle].map(f64::to_bits);
        [sms.into(), clock, l2, memory, power, shared_bytes, mma_sync]
    }

    /// Returns whether this is an H200, for which the model is calibrated. The figures that drivers
    /// report differ a little, so they need not be equal.
    #[inline]
    pub(crate) fn is_h200(&self) -> bool {
        let of_memory = self.memory_bytes_per_s / Machine::H200.memory_bytes_per_s;
        self.sms == Machine::H200.sms && (of_memory - 1.0).abs() < 0.05
    }
}

/// Bytes per MiB.
const MIB: f64 = 1024.0 * 1024.0;

/// How much of the peak memory bandwidth streams reach: 4.4 of 4.8 TB/s on an H200.
const REACHED: f64 = 0.914;

/// Takes clocks from the H200 if they are 0, and scales the power limit with the SM count, because
/// drivers do not report it. The `mma.sync` rate follows from the compute capability: 8.6 and 8.9
/// count as GeForce.
impl From<&Properties> for Machine {
    #[inline]
    fn from(properties: &Properties) -> Machine {
        let base = Machine::H200;
        let size = f64::from(properties.sm_count) / f64::from(base.sms);
        let hz = |khz: u32, base: f64| if khz == 0 { base } else { f64::from(khz) * 1e3 };
        let bytes = 2.0 * f64::from(properties.memory_bus_bits) / 8.0;
        let peak = bytes * hz(properties.memory_clock_khz, 3.2e9);
        Machine {
            sms: properties.sm_count.max(1),
            clock_hz: hz(properties.clock_khz, base.clock_hz),
            l2_bytes: properties.l2_bytes as f64,
            memory_bytes_per_s: (REACHED * peak).max(1e9),
            power_w: base.power_w * size,
            shared_bytes: properties.shared_bytes_per_sm,
            mma_sync_per_cycle: match properties.capability {
                (8, 0) => Machine::A100.mma_sync_per_cycle,
                (8, _) => Machine::RTX_4090.mma_sync_per_cycle,
                _ => HOPPER_MMA_SYNC,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the drivers of an H200 and an H100 (SXM) report, and the memory bandwidth that was
    /// measured.
    #[test]
    fn machines_follow_the_properties() {
        let h200 = Properties {
            capability: (9, 0),
            sm_count: 132,
            threads_per_sm: 2048,
            registers_per_sm: 65536,
            shared_bytes_per_sm: 228 << 10,
            l2_bytes: 60 << 20,
            memory_bus_bits: 6016,
            clock_khz: 1_980_000,
            memory_clock_khz: 3_201_000,
        };
        let is_close = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.01;
        let machine = Machine::from(&h200);
        assert!(is_close(machine.memory_bytes_per_s, 4.4e12), "{machine:?}");
        let memory_bytes_per_s = Machine::H200.memory_bytes_per_s;
        assert_eq!(Machine { memory_bytes_per_s, ..machine }, Machine::H200);
        let unknown = Properties { clock_khz: 0, memory_clock_khz: 0, ..h200 };
        assert!(is_close(Machine::from(&unknown).memory_bytes_per_s, 4.4e12));
        assert_eq!(Machine::from(&unknown).clock_hz, machine.clock_hz);
        let (l2_bytes, memory_bus_bits, memory_clock_khz) = (50 << 20, 5120, 2_619_000);
        let h100 =
            Machine::from(&Properties { l2_bytes, memory_bus_bits, memory_clock_khz, ..h200 });
        assert!(is_close(h100.memory_bytes_per_s, 3.06e12), "{h100:?}");
        assert_ne!(h100.bits(), machine.bits());
    }

    /// What drivers report for the GPUs that have a constant. They do not report the power limit.
    #[test]
    fn constants_are_those_of_the_devices() {
        let hopper = ((9, 0), 65536, 228 << 10);
        let ada = ((8, 9), 65536, 100 << 10);
        let ampere = ((8, 0), 65536, 164 << 10);
        for (name, machine, (capability, registers, shared), figures) in [
            // SMs, MiB of L2, memory bus bits, clock and memory clock in kHz.
            ("H100", Machine::H100, hopper, [132, 50, 5120, 1_980_000, 2_619_000]),
            ("A100", Machine::A100, ampere, [108, 40, 5120, 1_410_000, 1_593_000]),
            ("RTX 4090", Machine::RTX_4090, ada, [128, 72, 384, 2_520_000, 10_501_000]),
            ("L40S", Machine::L40S, ada, [142, 96, 384, 2_520_000, 9_001_000]),
        ] {
            let [sm_count, l2, memory_bus_bits, clock_khz, memory_clock_khz] = figures;
            let found = Machine::from(&Properties {
                capability,
                sm_count,
                threads_per_sm: 2048,
                registers_per_sm: registers,
                shared_bytes_per_sm: shared,
                l2_bytes: u64::from(l2) << 20,
                memory_bus_bits,
                clock_khz,
                memory_clock_khz,
            });
            let ratio = found.memory_bytes_per_s / machine.memory_bytes_per_s;
            assert!((ratio - 1.0).abs() < 0.01, "{name}: {ratio}");
            let Machine { memory_bytes_per_s, power_w, mma_sync_per_cycle, .. } = machine;
            let found = Machine { memory_bytes_per_s, power_w, ..found };
            // An L40S and a GeForce have the same compute capability.
            let found =
                if name == "L40S" { Machine { mma_sync_per_cycle, ..found } } else { found };
            assert_eq!(found, machine, "{name}");
            assert!(!machine.is_h200() && Machine::H200.is_h200());
        }
        // The datasheets' rates, in TFLOP/s: two operations per multiply-add.
        for (machine, teraflops) in
            [(Machine::A100, 312.0), (Machine::RTX_4090, 165.2), (Machine::L40S, 366.0)]
        {
            let Machine { sms, clock_hz, mma_sync_per_cycle, .. } = machine;
            let found = 2.0 * f64::from(sms) * clock_hz * mma_sync_per_cycle / 1e12;
            assert!((found / teraflops - 1.0).abs() < 0.02, "{found} {teraflops}");
        }
    }
}
