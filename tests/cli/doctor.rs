//! `tilewright doctor`.

use std::process::Command;

use super::text;

/// The simulator is always there and works; whatever else is found, the answer is whole.
#[test]
fn doctor_examines_the_machine() {
    let run = |args: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_tilewright"))
            .args(args)
            .env("TILEWRIGHT_CACHE", "off")
            .env("TILEWRIGHT_PTXAS", "/nowhere/ptxas")
            .output()
            .expect("it starts")
    };
    let output = run(&["doctor"]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    for part in
        ["version", "driver", "the simulator", "test passed", "in memory only", "none found"]
    {
        assert!(said.contains(part), "`{part}` is missing:\n{said}");
    }
    let json: serde_json::Value =
        serde_json::from_slice(&run(&["doctor", "--json"]).stdout).unwrap();
    let devices = json["devices"].as_array().unwrap();
    assert!(devices.iter().any(|d| d["name"] == "the simulator" && d["passed"] == true), "{json}");
    assert_eq!((&json["problems"], &json["cache"]), (&0.into(), &serde_json::Value::Null));
}
