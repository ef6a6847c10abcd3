//! [`Machine`]: a device as the model of matrix products sees it.

use crate::runtime::{Device, Properties};

/// The figures of a device that the model uses.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "tune", derive(serde::Serialize, serde::Deserialize))]
pub struct Machine {
    /// SMs.
    pub sms: u32,
    /// Cycles per second at full clock.
    pub clock_hz: f64,
    /// Bytes of the L2 cache.
    pub l2_bytes: f64,
    /// Bytes per second of its memory, as streams reach it.
    pub memory_bytes_per_s: f64,
    /// Watts that it may take.
    pub power_w: f64,
    /// Bytes of shared memory of an SM.
    pub shared_bytes: u64,
}

impl Machine {
    /// The NVIDIA H200 (SXM): 132 SMs, 1980 MHz, 60 MiB of L2, 700 W; 4.4 TB/s are measured.
    pub const H200: Machine = Machine {
        sms: 132,
        clock_hz: 1.98e9,
        l2_bytes: 60.0 * 1024.0 * 1024.0,
        memory_bytes_per_s: 4.4e12,
        power_w: 700.0,
        shared_bytes: 228 * 1024,
    };

    /// Returns the number of clusters of thread blocks, one on each SM, that run at once. The SMs of a cluster are of one group of
    /// SMs: larger clusters leave some without work, 12 of the 132 of an H200.
    #[inline]
    pub(crate) fn clusters(&self, blocks: u32) -> u32 {
        let sms = if blocks > 2 { self.sms - self.sms.div_ceil(11) } else { self.sms };
        (sms / blocks.max(1)).max(1)
    }

    /// Returns the machine of a device: the SMs, the clock, the L2 cache and the memory of a GPU; the H200, to which the model is
    /// fitted, for a simulator.
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

    /// Returns the bits of all figures, which tell machines apart.
    #[inline]
    pub(crate) fn bits(&self) -> [u64; 6] {
        let Machine { sms, clock_hz, l2_bytes, memory_bytes_per_s, power_w, shared_bytes } = *self;
        let [clock, l2, memory, power] =
            [clock_hz, l2_bytes, memory_bytes_per_s, power_w].map(f64::to_bits);
        [sms.into(), clock, l2, memory, power, shared_bytes]
    }
}

/// The share of the peak rate of memory that streams reach: 4.4 of 4.8 TB/s of an H200.
const REACHED: f64 = 0.914;

/// Takes the clocks from the H200 where they are 0, and the watts in proportion to the SMs: drivers do not say them.
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The properties that the drivers of an H200 and an H100 (SXM) report, and the rates of memory that were measured.
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
}
