//! The rule on registers of A that are computed too early, beside what `ptxas` says.
//!
//! Without `ptxas` nothing of this runs but the verifier.

use crate::support::ptxas;

use tilewright::ir::{Kernel, parse};

/// A loop of products whose A is made in the lines `early`, before the wait, and `late`, behind it.
/// A long one has too many operations to be unrolled by `ptxas`.
fn kernel(bound: &str, is_long: bool, early: &str, late: &str) -> String {
    let more = if is_long { 64 } else { 0 };
    let rest: String =
        (0..more).map(|i| format!("%r{} = fma %r{i}, %r{i}, %before : f32\n", i + 1)).collect();
    let zeros: String = (0..4).map(|i| format!("set_var<@acc, {i}> %zero\n")).collect();
    let starts: String = (0..4)
        .map(|i| format!("%start{i} = ld %x, %c{i} : u32\nset_var<@a, {i}> %start{i}\n"))
        .collect();
    let words: String = (0..4).map(|i| format!("%a{i} = get_var<@a, {i}> : u32\n")).collect();
    let sums: String = (0..4)
        .map(|i| format!("%s{i} = get_var<@acc, {i}> : f32\nst %y, %c{i}, %s{i}\n"))
        .collect();
    let places: String = (0..4).map(|i| format!("%c{i} = const {i} : i32\n")).collect();
    format!(
        "kernel @k target sm_90a block 128 x 1 x 1 (%x: ptr<global, u32>, %y: ptr<global, mut f32>, %b: u64, %n: i32) {{
        var @acc: f32 x 4
        var @a: u32 x 4
        var @rest: f32 x 1
        %zero = const 0.0 : f32
        {places}
        %four = const 4 : i32
        %yes = const true : bool
        {zeros}
        {starts}
        %before = ld %y, %four : f32
        set_var<@rest, 0> %before
        for @l %i: i32 = %c0 to {bound} step %c1 {{
            {words}
            %words = vec_pack %a0, %a1, %a2, %a3 : u32x4
            %a = bitcast<bf16x8> %words : bf16x8
            wgmma_fence
            wgmma_rs<m64n8k16, bf16, @acc, 0> %a, %b, %yes
            wgmma_commit_group
            {early}
            wgmma_wait_group<0>
            {late}
            %r0 = get_var<@rest, 0> : f32
            {rest}
            set_var<@rest, 0> %r{more}
            continue @l
        }}
        {sums}
        %last = get_var<@rest, 0> : f32
        st %y, %four, %last
        return
        }}"
    )
}

/// Returns the operations that compute the next words.
fn compute(words: usize) -> String {
    (0..words).map(|i| format!("%n{i} = add %a{i}, %start{i} : u32\n")).collect()
}

fn set(words: usize) -> String {
    (0..words).map(|i| format!("set_var<@a, {i}> %n{i}\n")).collect()
}

fn verified(text: &str) -> Result<String, String> {
    let ir = parse("wgmma.kir", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let kernel = Kernel::verify(ir).map_err(|errors| errors.to_string())?;
    Ok(kernel.ptx().text().to_owned())
}

/// Returns true if `ptxas` runs the products one after the other; `None` without `ptxas`.
fn is_serialised(ptx: &str) -> Option<bool> {
    let report = ptxas::find()?.report(ptx, "sm_90a");
    let report = report.unwrap_or_else(|problem| panic!("{problem}"));
    assert!(!report.contains("(C7") || report.contains("(C7513)"), "{report}");
    Some(report.contains("(C7513)"))
}

/// `ptxas` overlaps the kernels that the rule accepts and serialises the refused kernels. A refused
/// kernel is the accepted kernel with the wait moved behind the computation.
#[test]
fn a_is_not_computed_before_the_wait() {
    for words in [2, 3, 4] {
        let late = format!("{}{}", compute(words), set(words));
        let ptx = verified(&kernel("%n", true, "", &late)).expect("it is computed behind the wait");
        assert_ne!(is_serialised(&ptx), Some(true), "{ptx}");
        let wait = "wgmma.wait_group.sync.aligned 0;";
        let mut lines: Vec<&str> = ptx.lines().collect();
        let from = lines.iter().position(|line| line.contains(wait)).expect("there is a wait");
        let wait = lines.remove(from);
        let rest = lines.iter().position(|line| line.contains("fma.rn")).expect("there is a rest");
        lines.insert(rest, wait);
        let moved = lines.join("\n");
        assert_ne!(is_serialised(&moved), Some(false), "{moved}");
        for (early, late) in [
            (format!("{}{}", compute(words), set(words)), String::new()),
            (compute(words), set(words)),
        ] {
            let refused =
                verified(&kernel("%n", true, &early, &late)).expect_err("it is too early");
            assert!(refused.contains("`add` computes A of the next iteration"), "{refused}");
            assert!(refused.contains("the `wgmma` at wgmma.kir:"), "{refused}");
        }
    }
}

/// Short loops and those with constant bounds, which are unrolled, and values that are computed but
/// not carried: `ptxas` finds registers for all of these.
#[test]
fn what_ptxas_overlaps_is_accepted() {
    let all = format!("{}{}", compute(4), set(4));
    let other: String = (0..4)
        .map(|i| format!("%m{i} = add %n{i}, %start{i} : u32\nset_var<@a, {i}> %m{i}\n"))
        .collect();
    for text in [
        kernel("%n", true, "", ""),
        kernel("%n", false, &all, ""),
        kernel("%four", true, &all, ""),
        kernel("%n", true, &compute(4), &other),
    ] {
        let ptx = verified(&text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        assert_ne!(is_serialised(&ptx), Some(true), "{ptx}");
    }
}
