//! `tilewright doctor`: here, and with drivers that `support/driver.rs` makes.

use std::ffi::OsStr;
use std::fs;
use std::process::{Command, Output};

use serde_json::{Value, json};

use super::{temporary, text, tilewright};

fn doctor(json: bool, environment: &[(&str, &OsStr)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tilewright"));
    command.arg("doctor").args(json.then_some("--json")).env("TILEWRIGHT_CACHE", "off");
    command.env_remove("TILEWRIGHT_PTXAS").envs(environment.iter().copied());
    command.output().expect("it starts")
}

/// Returns the report as text and as JSON, and the exit code, which both forms share.
fn said(environment: &[(&str, &OsStr)]) -> (String, Value, Option<i32>) {
    let [plain, json] = [false, true].map(|json| doctor(json, environment));
    assert_eq!(plain.status.code(), json.status.code(), "{}", text(&plain.stderr));
    let value: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(value["problems"] == 0, plain.status.success(), "{value}");
    // Where something fails, the standard error says so in one line.
    let error = text(&plain.stderr);
    let count = error.lines().filter(|line| line.starts_with("error: ")).count();
    assert_eq!(count, usize::from(!plain.status.success()), "{error}");
    (text(&plain.stdout), value, plain.status.code())
}

/// The simulator is always there and works; whatever else is found, the answer is whole.
#[test]
fn the_machine_is_examined() {
    let (said, json, code) = said(&[]);
    assert_eq!(code, Some(0), "{said}");
    for part in ["version", "driver", "the simulator", "test passed", "in memory only"] {
        assert!(said.contains(part), "`{part}` is missing:\n{said}");
    }
    let simulator = json["devices"].as_array().unwrap().last().unwrap();
    assert_eq!((&simulator["name"], &simulator["passed"]), (&json!("the simulator"), &json!(true)));
    assert_eq!((&simulator["capability"], &simulator["target"]), (&Value::Null, &json!("sm_80")));
    assert_eq!((&json["cache"], &json["warnings"]), (&Value::Null, &json!([])));
    let help = text(&tilewright(&["doctor", "--help"]).stdout);
    assert!(help.contains("Exit codes: 0 "), "{help}");
}

/// Nothing needs `ptxas`, but who names one means it.
#[test]
fn a_variable_that_names_no_ptxas_is_a_warning() {
    let (said, json, code) = said(&[("TILEWRIGHT_PTXAS", OsStr::new("/nowhere/ptxas"))]);
    let warning = "`TILEWRIGHT_PTXAS` does not name a ptxas: `/nowhere/ptxas` does not run";
    assert!(said.contains(&format!("ptxas     WARNING: {warning}")), "{said}");
    assert!(json["warnings"][0].as_str().unwrap().starts_with(warning), "{json}");
    assert_eq!((code, &json["ptxas"]), (Some(0), &Value::Null));
}

#[test]
fn a_cache_that_cannot_be_written_is_a_warning() {
    // Below a file there are no folders, whoever asks.
    let path = temporary("no-folder");
    fs::write(&path, "").unwrap();
    let (below, variable) = (path.join("modules"), "TILEWRIGHT_CACHE");
    let (found, json, code) = said(&[(variable, below.as_os_str())]);
    assert!(found.contains("WARNING: cannot write to it ("), "{found}");
    let warning = json["warnings"][0].as_str().unwrap();
    assert!(found.contains(warning), "{json}");
    assert_eq!((code, &json["cache"]["writable"]), (Some(0), &json!(false)));
    fs::remove_file(&path).unwrap();

    // Nothing is left where something can be written: here, in a folder that does not exist yet.
    let folder = temporary("folder");
    fs::create_dir(&folder).unwrap();
    for cache in [folder.clone(), folder.join("a").join("b")] {
        let (found, json, code) = said(&[(variable, cache.as_os_str())]);
        assert!(found.contains(&format!("cache     {}: ", cache.display())), "{found}");
        assert_eq!(
            (code, &json["cache"]["writable"], &json["warnings"]),
            (Some(0), &json!(true), &json!([]))
        );
        let left = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with('.')).collect();
        assert!(left.is_empty(), "{left:?}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[cfg(target_os = "linux")]
mod with_a_driver {
    use super::*;
    use crate::driver::complete_driver;

    /// As [`super::said`], with a driver of these settings; `None` where none can be built.
    fn said(settings: &[(&str, &str)]) -> Option<(String, Value, Option<i32>)> {
        let folder = complete_driver()?;
        let names: Vec<String> =
            settings.iter().map(|(name, _)| format!("FAKE_CUDA_{name}")).collect();
        let values = settings.iter().map(|(_, value)| OsStr::new(*value));
        let mut environment: Vec<_> = names.iter().map(String::as_str).zip(values).collect();
        environment.push(("LD_LIBRARY_PATH", folder.as_os_str()));
        Some(super::said(&environment))
    }

    /// Each fact of the text is in the JSON too.
    #[test]
    fn gpus_are_described_and_tested() {
        let settings = [("DEVICES", "2"), ("VERSION", "13000")];
        let Some((said, json, code)) = said(&settings) else { return };
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("CUDA 13.0\n"), "{said}");
        for line in [
            "device    GPU 1 (Fake GPU)",
            "compute capability 9.0, builds for sm_90a",
            "3 SMs, each with 2048 threads, 65536 registers, 228 KiB of shared memory",
            "1 MiB of L2 cache, a memory bus of 512 bits at 2000 MHz, SMs at up to 1500 MHz",
            "blocks of up to 1024 threads, 1024 x 1024 x 64, with 227 KiB of shared memory, 48 KiB of it static",
            "grids of up to 2147483647 x 65535 x 65535 blocks, clusters of up to 16",
            "0.0 of 0.0 GiB free",
            "test passed",
        ] {
            assert!(said.contains(&format!("{line}\n")), "`{line}` is missing:\n{said}");
        }
        let limits = json!({
            "blocks": [2_147_483_647, 65_535, 65_535],
            "threads": [1024, 1024, 64],
            "threads_per_block": 1024,
            "shared_bytes": 48 << 10,
            "shared_bytes_opt_in": 227 << 10,
            "cluster_blocks": 16,
        });
        let device = json!({
            "name": "GPU 0 (Fake GPU)",
            "capability": "9.0",
            "target": "sm_90a",
            "sm_count": 3,
            "threads_per_sm": 2048,
            "registers_per_sm": 65_536,
            "shared_bytes_per_sm": 228 << 10,
            "l2_bytes": 1 << 20,
            "memory_bus_bits": 512,
            "clock_khz": 1_500_000,
            "memory_clock_khz": 2_000_000,
            "limits": limits,
            "free_bytes": 1 << 24,
            "total_bytes": 1 << 24,
            "test": null,
            "passed": true,
        });
        assert_eq!((&json["devices"][0], &json["driver"]["cuda"]), (&device, &json!("13.0")));
        assert_eq!((&json["driver"]["error"], &json["refused"]), (&Value::Null, &json!([])));
    }

    /// A folder that others can write is refused when the test of the GPU looks for its module.
    #[test]
    fn a_refused_cache_is_a_warning() {
        use std::os::unix::fs::PermissionsExt;

        let (Some(driver), cache) = (complete_driver(), temporary("open")) else { return };
        fs::create_dir(&cache).unwrap();
        fs::set_permissions(&cache, fs::Permissions::from_mode(0o777)).unwrap();
        let environment =
            [("LD_LIBRARY_PATH", driver.as_os_str()), ("TILEWRIGHT_CACHE", cache.as_os_str())];
        let (said, json, code) = super::said(&environment);
        let warning = format!("`{}` is not used: its mode is 777, ", cache.display());
        assert!(said.contains(&format!("WARNING: {warning}")), "{said}");
        assert!(json["warnings"][0].as_str().unwrap().starts_with(&warning), "{json}");
        assert_eq!((code, json["devices"][0]["passed"] == true), (Some(0), true), "{said}");
        fs::remove_dir_all(&cache).unwrap();
    }

    /// A GPU that is too old is a failure for each.
    #[test]
    fn refused_gpus_are_failures() {
        for count in [1, 2] {
            let settings = [("CAPABILITY", "75"), ("DEVICES", &*count.to_string())];
            let Some((said, json, code)) = said(&settings) else { return };
            assert_eq!((code, &json["problems"]), (Some(1), &json!(count)), "{said}");
            assert_eq!(said.matches("device    NOT USABLE: ").count(), count, "{said}");
            let refused = json["refused"].as_array().unwrap();
            assert!(
                refused.len() == count && said.contains(refused[0].as_str().unwrap()),
                "{json}"
            );
            // The simulator still works.
            assert!(json["devices"][0]["passed"] == true, "{json}");
            assert_eq!(json["driver"]["cuda"], "12.8");
            assert!(said.contains("CUDA 12.8\n"), "{said}");
        }
    }

    /// A driver that does not start is a failure, one without GPUs is not.
    #[test]
    fn broken_drivers_are_failures() {
        let cases = [
            (("VERSION", "11080"), 1, json!("11.8"), "at least CUDA 12.0 is needed"),
            (("INIT", "803"), 1, Value::Null, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
            (("INIT", "34"), 1, Value::Null, "stub"),
            (("INIT", "100"), 0, Value::Null, "finds no GPU"),
            (("DEVICES", "0"), 0, json!("12.8"), "finds no GPU"),
        ];
        for (setting, expected, cuda, part) in cases {
            let Some((said, json, code)) = said(&[setting]) else { return };
            assert_eq!((code, &json["problems"]), (Some(expected), &json!(expected)), "{said}");
            let error = json["driver"]["error"].as_str().unwrap();
            assert!(error.contains(part) && json["driver"]["cuda"] == cuda, "{json}");
            let what = if expected == 0 { "none" } else { "DOES NOT WORK" };
            assert!(said.contains(&format!("{what}: {error}\n")), "{said}");
            assert_eq!(json["devices"].as_array().unwrap().len(), 1, "{json}");
        }
    }

    /// Memory for one of the two buffers of the test.
    #[test]
    fn a_failed_test_is_a_failure() {
        let Some((said, json, code)) = said(&[("MEMORY", "5000")]) else { return };
        assert_eq!((code, &json["problems"]), (Some(1), &json!(1)), "{said}");
        let [gpu, simulator] = [&json["devices"][0], &json["devices"][1]];
        assert_eq!((&gpu["passed"], &simulator["passed"]), (&json!(false), &json!(true)));
        let failed = format!("TEST FAILED: {}\n", gpu["test"].as_str().unwrap());
        assert!(said.contains(&failed), "{said}");
    }
}
