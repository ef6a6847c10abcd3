//! [`Explanation`]: why a configuration was chosen, as predicted times by cause. Print it when a
//! GEMM is slower than you expect.

use std::fmt;

use crate::kernels::gemm::choose::prediction::Prediction;
use crate::kernels::gemm::config::GemmConfig;
use crate::kernels::gemm::config::methods::Splits;

/// Why [`GemmConfig::explain`] chose a configuration: its predicted time by cause, and the
/// runners-up.
///
/// It prints as a table. The times of the busiest SM, memory, L2 cache and energy overlap, and the
/// prediction is about the longest of them. If it is not [calibrated](Prediction::is_calibrated),
/// the table says so: then use it only to compare configurations.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The chosen configuration.
    pub config: GemmConfig,
    /// Its predicted time, with the parts that make it up.
    pub prediction: Prediction,
    /// The problem's row tiles and column tiles per matrix, and its steps along K, with the chosen
    /// tile.
    pub tiles: [u32; 3],
    /// How many SMs the device has, to compare with the tile count.
    pub sms: u32,
    /// The other configurations that were considered, fastest first.
    pub others: Vec<(GemmConfig, Prediction)>,
}

impl fmt::Display for Explanation {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explanation { config, prediction: p, tiles: [rows, columns, steps], sms, .. } = self;
        let us = |seconds: f64| seconds * 1e6;
        writeln!(f, "{config}")?;
        let order = if p.is_calibrated { "" } else { " (not calibrated: only the order counts)" };
        writeln!(f, "{:>10.2} us predicted{order}; limit: {}", us(p.seconds), p.limit())?;
        let splits = match config.splits {
            Splits::SplitK(parts) => format!("{parts} splits"),
            Splits::StreamK => "stream-K".to_owned(),
        };
        writeln!(
            f,
            "{:>10.2} us busiest SM: {rows} x {columns} tiles of {steps} steps, {splits}, {} waves of {sms} SMs",
            us(p.busy_s),
            p.waves
        )?;
        let parts = [
            (p.mma_s, "multiply-accumulates"),
            (p.l2_s, "loads of tiles from the L2 cache, at the same time"),
            (p.store_s, "stores of D"),
            (p.fix_up_s, "sums over splits"),
        ];
        for (seconds, what) in parts {
            if seconds > 0.0 {
                writeln!(f, "{:>14.2} us {what}", us(seconds))?;
            }
        }
        writeln!(f, "{:>10.2} us memory: {:.1} MB", us(p.memory_s), p.memory_bytes / 1e6)?;
        writeln!(f, "{:>10.2} us L2 cache: {:.1} MB", us(p.cache_s), p.l2_bytes / 1e6)?;
        writeln!(f, "{:>10.2} us energy at the power limit", us(p.energy_s))?;
        if p.copies_s > 0.0 {
            writeln!(f, "{:>10.2} us copies of A and B, which are unaligned", us(p.copies_s))?;
        }
        for (config, other) in self.others.iter().take(2) {
            let slower = 100.0 * (other.seconds / p.seconds - 1.0);
            writeln!(f, "{:>10.2} us (+{slower:.1} %) {config}", us(other.seconds))?;
        }
        Ok(())
    }
}
