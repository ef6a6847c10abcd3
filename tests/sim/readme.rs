//! The README and `docs/safety.md` show what the library reports if a synchronisation is deleted:
//! these are the reports.

use tilewright::ir::types::Scalar;
use tilewright::ir::{Global, GlobalMut, Kernel, Target, parse, range};
use tilewright::layout::{Analysis, layout, shape, tiler};
use tilewright::runtime::{Device, Grid};
use tilewright::sim::Options;
use tilewright::tensor::atom::{CopyAtom, CopyOp, MmaAtom, MmaOp, TiledCopy, TiledMma, ValType};
use tilewright::tensor::copy::copy;
use tilewright::tensor::mma::gemm;
use tilewright::tensor::view::{SharedTensor, Tensor};

#[path = "../../examples/plain_gemm.rs"]
mod plain_gemm;

type Args = (Global<f32>, Global<f32>, GlobalMut<f32>);

/// The kernel of `docs/safety.md` without the barrier after the MMA.
fn without_a_barrier() -> Kernel<Args> {
    let word = CopyAtom::new(CopyOp::Universal { bits: 32 }).unwrap();
    let (threads, values) = (layout!((32, 8):(8, 1)), layout!((1, 1)));
    let loads = TiledCopy::new(word, Scalar::F32, &threads, &values).unwrap();
    let fma = MmaAtom::new(MmaOp::UniversalFma { ty: ValType::F32 }).unwrap();
    let mma = TiledMma::new(fma, &layout!((16, 16, 1)), tiler!(_, _, _)).unwrap();
    let kernel = Kernel::<Args>::build("matmul", Target::SM_80, |k, (a, b, c)| {
        let (thread, block) = (k.thread_idx().x, k.block_idx());
        let [a, b] = [(a, block.x), (b, block.y)].map(|(x, row)| {
            Tensor::new(x, layout!((64, 96):(96, 1))).local_tile(&tiler!(32, 8), (row, ..))
        });
        let c = Tensor::new(c, layout!((64, 64):(64, 1)));
        let c = c.local_tile(&tiler!(32, 32), (block.x, block.y));
        let [sa, sb] = [(); 2].map(|()| SharedTensor::<f32>::shared(k, layout!((32, 8):(1, 36))));
        let (load, mine) = (loads.slice(thread), mma.slice(thread));
        let acc = mine.fragment_c::<f32>(k, shape!(32, 32));
        acc.fill(0.0);
        k.for_(range(0, 12).prefetch_stages(2), (), |k, step, ()| {
            copy(&load.partition_s(&a.slice((.., .., step))), &load.partition_d(&sa));
            copy(&load.partition_s(&b.slice((.., .., step))), &load.partition_d(&sb));
            k.barrier();
            gemm(&mma, &acc, &mine.partition_a(&sa), &mine.partition_b(&sb));
        });
        copy(&acc, &mine.partition_c(&c));
    });
    kernel.unwrap()
}

/// The report with the lines of the README's listing, as a file `matmul.rs`, in place of the lines
/// of this file.
fn in_lines_of(listing: &str, report: &str) -> String {
    let mut parts = report.split("tests/sim/readme.rs:");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit() && c != ':').unwrap_or(part.len());
        let (line, column) = part[..end].split_once(':').unwrap();
        let (line, column): (usize, usize) = (line.parse().unwrap(), column.parse().unwrap());
        let code = include_str!("readme.rs").lines().nth(line - 1).unwrap();
        let at = listing.lines().position(|other| other.trim() == code.trim());
        let at = at.unwrap_or_else(|| panic!("the listing has no line `{}`", code.trim()));
        let indent = |line: &str| line.len() - line.trim_start().len();
        let column = column + indent(listing.lines().nth(at).unwrap()) - indent(code);
        text += &format!("matmul.rs:{}:{column}{}", at + 1, &part[end..]);
    }
    text
}

#[test]
fn the_report_of_a_missing_barrier() {
    let device = Device::sim_with(Options::default().race(true));
    let function = device.load(&without_a_barrier()).unwrap();
    let (a, b) = (device.upload(&[1.0; 64 * 96]).unwrap(), device.upload(&[0.5; 64 * 96]).unwrap());
    let mut c = device.zeros(64 * 64).unwrap();
    let grid = Grid::new([2, 2, 1], [256, 1, 1]);
    let report = function.launch(grid, (&a, &b, &mut c)).unwrap_err().to_string();
    let (readme, safety) = (include_str!("../../README.md"), include_str!("../../docs/safety.md"));
    let listing = safety.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    // The second race is that of the other tile.
    let report = in_lines_of(listing.unwrap(), report.split("\n  also: ").next().unwrap());
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for document in [readme, safety] {
        assert!(words(document).contains(&words(&report)), "a document does not have\n{report}");
    }
}

/// The pitch of the tiles: the threads of a warp store, and load for the product, without bank
/// conflicts.
#[test]
fn the_pitch_avoids_bank_conflicts() {
    let conflicts = |pitch: i64, warp| {
        let tile = layout!((32, 8):(1, pitch));
        tile.bank_conflicts(&warp, 1, 32).unwrap().degree()
    };
    // Thread t copies row t / 8 and column t % 8. Of the product it has row t % 16 and column t
    // / 16.
    let (copies, rows, columns) =
        (layout!((8, 4):(32, 1)), layout!((16, 2):(1, 0)), layout!((16, 2):(0, 1)));
    assert_eq!([copies, rows, columns].map(|warp| conflicts(36, warp)), [1; 3]);
    assert_eq!(conflicts(33, layout!((8, 4):(32, 1))), 4);
    let safety = include_str!("../../docs/safety.md");
    assert_eq!(safety.matches("layout!((32, 8):(1, 36))").count(), 1);
}

/// The README's listing is the device code of the example, and without its wait the kernel is
/// refused as the README says.
#[test]
fn a_deleted_wait_is_refused() {
    let readme = include_str!("../../README.md");
    let example = include_str!("../../examples/plain_gemm.rs");
    let listing = readme.split("```rust,ignore\n").nth(1).and_then(|rest| rest.split("```").next());
    let lines = |text: &str| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
    let (listing, code) = (lines(listing.unwrap()), lines(example));
    assert!(listing.len() > 20);
    assert!(code.windows(listing.len()).any(|part| part == listing), "the listing is another one");

    // The loop as it is written, without stages: building the kernel with them rewrites it.
    let text = plain_gemm::kernel(0, 256).unwrap().to_string();
    let is_wait = |line: &&str| line.contains("mbarrier_wait_parity");
    let is_loop = |line: &&str| line.trim_start().starts_with("for @");
    assert_eq!(text.lines().filter(is_wait).count(), 1);
    assert_eq!(text.lines().filter(is_loop).count(), 1);
    let staged = |line: &str| match line.strip_suffix(" {") {
        Some(start) if is_loop(&line) => format!("{start} prefetch 4 {{"),
        _ => line.to_owned(),
    };
    let without: Vec<String> = text.lines().filter(|line| !is_wait(line)).map(staged).collect();
    let ir = parse("plain_gemm.kir", &without.join("\n")).unwrap();
    let refused = Kernel::verify(ir).unwrap_err().to_string();
    for quoted in [
        "this loop cannot start its bulk copies ahead",
        "wait for the parity `i % 2` of one mbarrier, use the tiles, wait for all MMAs, and pass one barrier",
    ] {
        assert!(refused.contains(quoted), "{refused}");
        let readme = readme.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(readme.contains(quoted), "the README does not have\n{quoted}");
    }
}
