//! Writes the report as text and as JSON, with the same facts in both.

use std::fmt::Write;

use tilewright::runtime::{Limits, Properties, RuntimeError};

use super::{Examined, Report};
use tilewright::json::Json;

impl Report {
    /// Returns whether there is a driver that does not work. Having no driver or no GPU is not a
    /// problem, because the simulator works.
    fn driver_is_broken(&self) -> bool {
        use RuntimeError::{CudaNotBuilt, NoDevice, NoDriver};
        let error = self.driver.error.as_ref();
        error.is_some_and(|error| !matches!(error, NoDriver | NoDevice | CudaNotBuilt))
    }

    /// Counts the parts that do not work.
    pub(super) fn problems(&self) -> usize {
        let tests = self.devices.iter().filter(|device| device.test.is_err()).count();
        usize::from(self.driver_is_broken()) + tests + self.refused.len()
    }

    /// Returns the warning about the cache. It does not count as a problem.
    fn cache_warning(&self) -> Option<String> {
        let error = self.cache.as_ref()?.unwritable.as_ref()?;
        Some(format!(
            "cannot write to it ({error}), so every process compiles its kernels again: name \
             another folder in `TILEWRIGHT_CACHE`"
        ))
    }

    /// Returns the warning about an entry or a folder that the cache refuses to use.
    fn refusal_warning(&self) -> Option<String> {
        self.cache.as_ref()?.refusal.as_ref().map(ToString::to_string)
    }

    fn ptxas_warning(&self) -> Option<String> {
        let error = self.ptxas.as_ref().err()?;
        Some(format!("`TILEWRIGHT_PTXAS` does not name a ptxas: {error}, or unset the variable"))
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: &str| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:<10}{value}");
        };
        line("version", env!("CARGO_PKG_VERSION"));
        self.driver_lines(&mut line);
        for device in &self.devices {
            line("device", &device.label);
            device.lines(&mut |value| line("", value));
        }
        for error in &self.refused {
            line("device", &format!("NOT USABLE: {error}"));
        }
        match &self.cache {
            Some(cache) => {
                let (folder, kib) = (cache.folder.display(), cache.bytes.div_ceil(1024));
                line("cache", &format!("{folder}: {} modules, {kib} KiB", cache.modules));
            }
            None => line("cache", "in memory only"),
        }
        for warning in [self.cache_warning(), self.refusal_warning()].into_iter().flatten() {
            line("", &format!("WARNING: {warning}"));
        }
        match (&self.ptxas, self.ptxas_warning()) {
            (_, Some(warning)) => line("ptxas", &format!("WARNING: {warning}")),
            (Ok(Some(ptxas)), _) => {
                line("ptxas", &format!("{} {}", ptxas.path().display(), ptxas.version()));
            }
            _ => line("ptxas", "not found, but not needed either"),
        }
        text
    }

    fn driver_lines(&self, line: &mut impl FnMut(&str, &str)) {
        let driver = &self.driver;
        let release = driver.release.clone();
        let cuda = driver.cuda.map(|version| format!("CUDA {version}"));
        let known: Vec<String> = match &driver.error {
            None => vec![
                release.unwrap_or_else(|| "unknown release".to_owned()),
                cuda.unwrap_or_else(|| "unknown CUDA version".to_owned()),
            ],
            Some(_) => release.into_iter().chain(cuda).collect(),
        };
        let mut name = "driver";
        if !known.is_empty() {
            line(name, &known.join(", "));
            name = "";
        }
        if let Some(error) = &driver.error {
            let what = if self.driver_is_broken() { "DOES NOT WORK" } else { "none" };
            line(name, &format!("{what}: {error}"));
        }
    }

    pub(super) fn json(&self) -> Json {
        let driver = &self.driver;
        let warnings = [self.cache_warning(), self.refusal_warning(), self.ptxas_warning()];
        let cache = |cache: &super::Cache| {
            Json::Object(vec![
                ("folder", Json::text(cache.folder.display())),
                ("modules", Json::Number(cache.modules as u64)),
                ("bytes", Json::Number(cache.bytes)),
                ("writable", Json::Bool(cache.unwritable.is_none())),
            ])
        };
        let ptxas = self.ptxas.as_ref().ok().and_then(Option::as_ref);
        Json::Object(vec![
            ("version", Json::text(env!("CARGO_PKG_VERSION"))),
            (
                "driver",
                Json::Object(vec![
                    ("cuda", Json::option(driver.cuda, Json::text)),
                    ("release", Json::option(driver.release.as_ref(), Json::text)),
                    ("error", Json::option(driver.error.as_ref(), Json::text)),
                ]),
            ),
            ("devices", Json::List(self.devices.iter().map(Examined::json).collect())),
            ("refused", Json::List(self.refused.iter().map(Json::text).collect())),
            ("cache", Json::option(self.cache.as_ref(), cache)),
            (
                "ptxas",
                Json::option(ptxas, |ptxas| {
                    Json::Object(vec![
                        ("path", Json::text(ptxas.path().display())),
                        ("version", Json::text(ptxas.version())),
                    ])
                }),
            ),
            ("warnings", Json::List(warnings.iter().flatten().map(Json::text).collect())),
            ("problems", Json::Number(self.problems() as u64)),
        ])
    }
}

impl Examined {
    fn lines(&self, line: &mut impl FnMut(&str)) {
        if let Some(properties) = self.properties {
            let Properties { capability: (major, minor), sm_count, .. } = properties;
            line(&format!("compute capability {major}.{minor}, builds for {}", self.target));
            line(&format!(
                "{sm_count} SMs, each with {} threads, {} registers, {} KiB of shared memory",
                properties.threads_per_sm,
                properties.registers_per_sm,
                properties.shared_bytes_per_sm / 1024,
            ));
            let bits = properties.memory_bus_bits;
            let mib = properties.l2_bytes as f64 / f64::from(1 << 20);
            let [clock, memory] =
                [properties.clock_khz, properties.memory_clock_khz].map(|khz| khz / 1000);
            line(&format!(
                "{mib:.0} MiB of L2 cache, a memory bus of {bits} bits at {memory} MHz, SMs at up to {clock} MHz"
            ));
        } else {
            line(&format!("builds for {}", self.target));
        }
        let by = |[x, y, z]: [u32; 3]| format!("{x} x {y} x {z}");
        let Limits { blocks, threads, threads_per_block, .. } = self.limits;
        line(&format!(
            "blocks of up to {threads_per_block} threads, {}, with {} KiB of shared memory, {} KiB of it static",
            by(threads),
            self.limits.shared_bytes_opt_in / 1024,
            self.limits.shared_bytes / 1024,
        ));
        let clusters = self.limits.cluster_blocks;
        line(&format!("grids of up to {} blocks, clusters of up to {clusters}", by(blocks)));
        if let Some((free, total)) = self.memory {
            let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
            line(&format!("{:.1} of {:.1} GiB free", gib(free), gib(total)));
        }
        match &self.test {
            Ok(()) => line("test passed"),
            Err(error) => line(&format!("TEST FAILED: {error}")),
        }
    }

    fn json(&self) -> Json {
        let number = |value: u32| Json::Number(value.into());
        let axes = |values: [u32; 3]| Json::List(values.map(number).into());
        let property = |value: fn(&Properties) -> u64| {
            Json::option(self.properties, |properties| Json::Number(value(&properties)))
        };
        let bytes = |bytes: fn((u64, u64)) -> u64| {
            Json::option(self.memory, |memory| Json::Number(bytes(memory)))
        };
        let capability = self.properties.map(|properties| properties.capability);
        let Limits { blocks, threads, threads_per_block, .. } = self.limits;
        let limits = Json::Object(vec![
            ("blocks", axes(blocks)),
            ("threads", axes(threads)),
            ("threads_per_block", number(threads_per_block)),
            ("shared_bytes", Json::Number(self.limits.shared_bytes)),
            ("shared_bytes_opt_in", Json::Number(self.limits.shared_bytes_opt_in)),
            ("cluster_blocks", number(self.limits.cluster_blocks)),
        ]);
        Json::Object(vec![
            ("name", Json::text(&self.label)),
            (
                "capability",
                Json::option(capability, |(major, minor)| Json::text(format!("{major}.{minor}"))),
            ),
            ("target", Json::text(self.target)),
            ("sm_count", property(|p| p.sm_count.into())),
            ("threads_per_sm", property(|p| p.threads_per_sm.into())),
            ("registers_per_sm", property(|p| p.registers_per_sm.into())),
            ("shared_bytes_per_sm", property(|p| p.shared_bytes_per_sm)),
            ("l2_bytes", property(|p| p.l2_bytes)),
            ("memory_bus_bits", property(|p| p.memory_bus_bits.into())),
            ("clock_khz", property(|p| p.clock_khz.into())),
            ("memory_clock_khz", property(|p| p.memory_clock_khz.into())),
            ("limits", limits),
            ("free_bytes", bytes(|(free, _)| free)),
            ("total_bytes", bytes(|(_, total)| total)),
            ("test", Json::option(self.test.as_ref().err(), Json::text)),
            ("passed", Json::Bool(self.test.is_ok())),
        ])
    }
}
