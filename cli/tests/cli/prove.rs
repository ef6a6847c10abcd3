//! `tilewright prove`.

use std::fs;

use super::{temporary, text, tilewright};

/// A guarded copy with one line more.
fn file(name: &str, line: &str) -> String {
    let path = temporary(name);
    let kernel = format!(
        "kernel @copy target sm_80 block 64 x 1 x 1 (%x: ptr<global, i32>, %y: ptr<global, mut i32>, %n: i32) {{
  %t = sreg<tid.x> : i32
  %in = setp<lt> %t, %n : bool
  if %in {{
    %v = ld %x, %t : i32
    {line}
    yield
  }}
  return
}}
"
    );
    fs::write(&path, kernel).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_proved_kernel_lists_its_conditions() {
    let path = file("proved.kir", "st %y, %t, %v");
    let output = tilewright(&["prove", &path]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let said = text(&output.stdout);
    let first = "`copy`: 2 obligations: 0 proved for every launch, 2 by conditions on the launch, 0 checked, 0 assumed\n";
    assert!(said.starts_with(first), "{said}");
    assert!(said.contains("\ncondition: len(x) >= n"), "{said}");
    assert!(said.contains("\ncondition: len(y) >= n"), "{said}");
}

#[test]
fn an_open_access_is_named_with_its_line() {
    let path = file("open.kir", "st %y, %v, %v");
    let output = tilewright(&["prove", &path, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stderr), "error: kernels with open accesses: copy\n");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let open = &json[0]["obligations"][1];
    assert_eq!((&open["op"], &open["verdict"]), (&"st".into(), &"checked".into()));
    assert_eq!(open["location"], format!("{path}:6:5"));
    assert_eq!(json[0]["complete"], false);
}

#[test]
fn races_are_listed_beside_bounds() {
    let path = file("apart.kir", "st %y, %t, %v");
    let said = text(&tilewright(&["prove", &path]).stdout);
    let races = "`copy`: 2 allocations: 1 without races in every launch, 1 by conditions on the launch, 0 open, 0 assumed\nno race if: 1 >= nctaid.x";
    assert!(said.contains(races), "{said}");

    let path = file("same.kir", "%zero = const 0 : i32\n    st %y, %zero, %v");
    let output = tilewright(&["prove", &path, "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let races = &json[0]["races"];
    assert_eq!(races["complete"], false);
    let open = &races["allocations"][1];
    assert_eq!((&open["name"], &open["verdict"]), (&"y".into(), &"open".into()));
    assert_eq!(open["first"]["location"], format!("{path}:7:5"));
}

#[test]
fn bad_input_is_refused() {
    for name in ["sm90a_nothing", "/nowhere/kernel.kir"] {
        let output = tilewright(&["prove", name]);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()));
        assert_eq!(text(&output.stderr).lines().count(), 1, "{name}");
    }
}
