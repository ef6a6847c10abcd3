//! The law on random kernels whose guards choose between two comparisons: the single elements at the
//! ends of rows that start and end anywhere. The first threads have the elements before a row's first
//! vector, the next ones those behind its last vector.

use tilewright::ir::Element;
use tilewright::prove::{LaunchValue, LaunchValues};
use tilewright::runtime::Grid;
use tilewright::sim::{GlobalBuffer, KernelArg, Options};

use crate::law::{self, Shown, check, counts, number, verified};
use crate::support::rng::Rng;

/// Launches of each random kernel.
const LAUNCHES: usize = 8;

/// What a kernel's guard compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// `at < lanes ? at < head : column < columns`.
    Chosen,
    /// The same, and the column is compared with the row's end once more.
    Clipped,
    /// Only one of the two comparisons.
    HeadOnly,
    ColumnOnly,
    /// The two comparisons are exchanged.
    Exchanged,
}

/// A kernel on the rows of an `i32` matrix, one row for each block.
#[derive(Clone, Copy, Debug)]
struct Kernel {
    threads: i64,
    lanes: i64,
    guard: Guard,
    is_store: bool,
    /// Whether blocks behind the last row have no columns.
    has_rows: bool,
    /// What is wrong with the lanes of the head, the head's end, the tail's columns and the row's end.
    wrong: [i64; 4],
}

impl Kernel {
    fn random(rng: &mut Rng) -> Kernel {
        let lanes = *rng.pick(&[2, 4, 8]);
        let guards = [
            Guard::Chosen,
            Guard::Chosen,
            Guard::Chosen,
            Guard::Clipped,
            Guard::Clipped,
            Guard::HeadOnly,
            Guard::ColumnOnly,
            Guard::Exchanged,
        ];
        let mut wrong = [0; 4];
        if rng.below(3) == 0 {
            wrong[rng.below(4)] = *rng.pick(&[1, -1, lanes, -lanes]);
        }
        Kernel {
            threads: *rng.pick(&[lanes, 2 * lanes, 3 * lanes]),
            lanes,
            guard: *rng.pick(&guards),
            is_store: rng.below(2) == 0,
            has_rows: rng.below(4) != 0,
            wrong,
        }
    }

    /// Whether a launch on exact buffers accesses nothing else.
    fn is_correct(self) -> bool {
        self.wrong == [0; 4] && matches!(self.guard, Guard::Chosen | Guard::Clipped)
    }

    /// How many elements a thread has.
    fn count(self) -> i64 {
        (2 * self.lanes + self.threads - 1) / self.threads
    }

    fn text(self) -> String {
        let Kernel { threads, lanes, wrong, .. } = self;
        let mut text = format!(
            "kernel @ends target sm_80 block {threads} x 1 x 1 (%x: ptr<global, i32>, \
             %y: ptr<global, mut i32>, %rows: i32, %columns: i32, %pitch: i64, %start: i32) {{
  %t = sreg<tid.x> : i32
  %row = sreg<ctaid.x> : i32
  %zero = const 0 : i32
  %one = const 1 : i32
  %lanes = const {lanes} : i32
  %mask = const {} : i32
  %first_lanes = const {} : i32
  %more_head = const {} : i32
  %more_tail = const {} : i32
  %more_end = const {} : i32
  %in_matrix = setp<lt> %row, %rows : bool
  %own = selp %in_matrix, %columns, %zero : i32
",
            lanes - 1,
            lanes + wrong[0],
            wrong[1],
            wrong[2],
            wrong[3],
        );
        let columns = if self.has_rows { "own" } else { "columns" };
        text += &format!(
            "  %ahead = and %start, %mask : i32
  %head = min %ahead, %{columns} : i32
  %left = sub %{columns}, %head : i32
  %vectors = div %left, %lanes : i32
  %before = sub %vectors, %one : i32
  %last = mul %before, %lanes : i32
  %behind0 = add %head, %last : i32
  %behind = add %behind0, %more_tail : i32
  %head_end = add %head, %more_head : i32
  %end = add %{columns}, %more_end : i32
  %row_wide = cvt<i64> %row : i64
  %down = mul %row_wide, %pitch : i64
"
        );
        for i in 0..self.count() {
            let (yes, no) = match self.guard {
                Guard::Chosen | Guard::Clipped => ("in_head", "in_row"),
                Guard::HeadOnly => ("in_head", "in_head"),
                Guard::ColumnOnly => ("in_row", "in_row"),
                Guard::Exchanged => ("in_row", "in_head"),
            };
            text += &format!(
                "  %more{i} = const {} : i32
  %at{i} = add %t, %more{i} : i32
  %tail{i} = add %at{i}, %behind : i32
  %is_first{i} = setp<lt> %at{i}, %first_lanes : bool
  %column{i} = selp %is_first{i}, %at{i}, %tail{i} : i32
  %in_head{i} = setp<lt> %at{i}, %head_end : bool
  %in_row{i} = setp<lt> %column{i}, %end : bool
  %chosen{i} = selp %is_first{i}, %{yes}{i}, %{no}{i} : bool
  %clipped{i} = and %chosen{i}, %in_row{i} : bool
  %wide{i} = cvt<i64> %column{i} : i64
  %index{i} = add %down, %wide{i} : i64
  if %{}{i} {{
    {}
    yield
  }}
",
                i * threads,
                if self.guard == Guard::Clipped { "clipped" } else { "chosen" },
                if self.is_store {
                    format!("st %y, %index{i}, %one")
                } else {
                    format!("%loaded{i} = ld %x, %index{i} : i32")
                },
            );
        }
        text + "  return\n}\n"
    }
}

struct Launch {
    sizes: [i64; 2],
    pitch: i64,
    start: i64,
    len: i64,
    blocks: u32,
    is_correct: bool,
}

impl Launch {
    fn random(rng: &mut Rng, kernel: Kernel) -> Launch {
        let mut sizes = [*rng.pick(&[1, 2, 3]), *rng.pick(&[0, 1, 2, 3, 5, 8, 9, 17, 31])];
        let mut pitch = sizes[1] + *rng.pick(&[0, 0, 1, 3]);
        let mut len = (sizes[0] - 1) * pitch + sizes[1];
        // Without a guard for rows, each block has one.
        let mut blocks = (sizes[0] + if kernel.has_rows { *rng.pick(&[0, 1]) } else { 0 }) as u32;
        let mut is_correct = kernel.is_correct();
        let mut is_strange = || {
            let is_strange = rng.below(4) == 0;
            is_correct &= !is_strange;
            is_strange
        };
        let strange: [bool; 4] = [(); 4].map(|()| is_strange());
        if strange[0] {
            len = (len + *rng.pick(&[-1, -1, -2, 1, -len, 7])).max(0);
        }
        if strange[1] {
            pitch = *rng.pick(&[0, 1, -1, -pitch, 2 * pitch, 1 << 61, i64::MAX, i64::MIN]);
        }
        if strange[2] {
            let all = [0, -1, 1, i32::MAX, i32::MAX - 1, i32::MIN, i32::MIN + 3, 40];
            sizes[rng.below(2)] = i64::from(*rng.pick(&all));
        }
        if strange[3] {
            blocks = *rng.pick(&[1, 2, 5]);
        }
        Launch { sizes, pitch, start: rng.below(16) as i64 - 4, len, blocks, is_correct }
    }
}

#[test]
fn ends_of_rows_keep_their_proofs() {
    let (cases, seed) = (number("TILEWRIGHT_PROVE_CASES", 300), number("TILEWRIGHT_PROVE_SEED", 1));
    let (mut all, mut faults, mut launches) = ([0; 3], 0, 0);
    let (mut fulfilled, mut refused, mut open) = (0, 0, 0);
    for case in 0..cases {
        let mut rng = Rng::new(seed.wrapping_add(case) ^ 0x3e2d);
        let made = Kernel::random(&mut rng);
        let kernel = verified(&made.text());
        let proof = kernel.prove();
        for (sum, count) in all.iter_mut().zip(counts(&proof)) {
            *sum += count;
        }
        if made.is_correct() {
            open += proof.open().count();
        }
        for _ in 0..LAUNCHES {
            let launch = Launch::random(&mut rng, made);
            let [rows, columns] = launch.sizes.map(|size| size as i32);
            let other = if rng.below(2) == 0 { launch.len } else { 0 };
            let lens = if made.is_store { [other, launch.len] } else { [launch.len, other] };
            let [bx, by] = lens.map(|len| GlobalBuffer::from_slice(&vec![3i32; len as usize]));
            let args = [
                KernelArg::Buffer(&bx),
                KernelArg::Buffer(&by),
                KernelArg::Scalar(rows.to_const()),
                KernelArg::Scalar(columns.to_const()),
                KernelArg::Scalar(launch.pitch.to_const()),
                KernelArg::Scalar((launch.start as i32).to_const()),
            ];
            let threads = [made.threads as u32, 1, 1];
            let buffer = |len: i64| LaunchValue::Buffer { len: len as u64, alignment: 256 };
            let int = |value: i64| LaunchValue::Integer(value.into());
            let sizes = [launch.sizes[0], launch.sizes[1], launch.pitch, launch.start].map(int);
            let arguments = [&lens.map(buffer)[..], &sizes].concat();
            let blocks = [launch.blocks, 1, 1];
            let values = LaunchValues::new(blocks, threads, arguments);
            let options = Options::default().race(false).fuel(1 << 15).threads(1);
            let grid = Grid::new(blocks, threads);
            let shown = check(kernel.ir(), &proof, grid, &args, &values, &options);
            faults += usize::from(shown == Shown::FaultAtOpen);
            launches += 1;
            if !launch.is_correct {
                continue;
            }
            assert_eq!(shown, Shown::Passed, "{made:?}\n{}", made.text());
            let own = law::fulfilled(&proof, &values, |_, condition| {
                println!("{made:?}\nrefuses {values:?}: {condition}");
            });
            (fulfilled, refused) = (fulfilled + own[0], refused + own[1]);
        }
    }
    let [proved, conditions, unproved] = all;
    println!(
        "{cases} kernels, {launches} launches, {faults} faults at open accesses; {proved} obligations \
         proved, {conditions} by conditions, {unproved} open, {open} of them in correct kernels; \
         correct launches fulfil {fulfilled} and miss {refused}"
    );
    assert_eq!(refused, 0);
    assert_eq!(open, 0);
    assert!(fulfilled > 0);
    assert!(faults > launches / 40, "{faults} faults of {launches} launches");
}

/// A kernel that stores vectors at a pointer's first multiple of 16 bytes, which it finds by looking
/// at the address.
#[derive(Clone, Copy, Debug)]
struct Addressed {
    /// The shift that makes elements of bytes, and the mask of a vector's elements.
    shift: i64,
    mask: i64,
    /// What is added to the vector's first element.
    wrong: i64,
    /// Whether the address has 32 bits when it is shifted.
    is_narrow: bool,
    /// Whether the row's start is added to the pointer before its address is taken.
    is_moved: bool,
}

impl Addressed {
    fn random(rng: &mut Rng) -> Addressed {
        let is_wrong = rng.below(2) == 0;
        Addressed {
            shift: if is_wrong { *rng.pick(&[1, 2, 2, 3]) } else { 2 },
            mask: if is_wrong { *rng.pick(&[1, 3, 3, 7]) } else { 3 },
            wrong: if is_wrong { *rng.pick(&[0, 1, 2, 4]) } else { 0 },
            is_narrow: rng.below(2) == 0,
            is_moved: rng.below(4) != 0,
        }
    }

    fn is_aligned(self) -> bool {
        self.shift == 2 && self.mask >= 3 && self.wrong % 4 == 0 && self.is_moved
    }

    fn text(self) -> String {
        let Addressed { shift, mask, wrong, is_narrow, is_moved } = self;
        let ty = if is_narrow { "i32" } else { "i64" };
        let narrowed = |is_wide: bool, name: &str| match is_wide {
            true => format!("%narrow_{name} = cvt<i32> %{name} : i32"),
            false => format!("%narrow_{name} = add %{name}, %none : i32"),
        };
        let address = if is_narrow { "narrow_address" } else { "address" };
        format!(
            "kernel @addressed target sm_80 block 8 x 1 x 1 (%y: ptr<global, mut i32>, %start: i64, \
             %columns: i32) {{
  %t = sreg<tid.x> : i32
  %one = const 1 : i32
  %four = const 4 : i32
  %row = offset %y, %start : ptr<global, mut i32>
  %none = const 0 : i32
  %address = ptr_to_int %{} : i64
  {}
  %shift = const {shift} : u32
  %lead = shr %{address}, %shift : {ty}
  %behind = neg %lead : {ty}
  %mask = const {mask} : {ty}
  %head0 = and %behind, %mask : {ty}
  {}
  %wrong = const {wrong} : i32
  %head = add %narrow_head0, %wrong : i32
  %own = mul %t, %four : i32
  %at = add %head, %own : i32
  %end = add %at, %four : i32
  %in = setp<le> %end, %columns : bool
  %v = vec_splat<4> %one : i32x4
  if %in {{
    st_vec %row, %at, %v
    yield
  }}
  return
}}
",
            if is_moved { "row" } else { "y" },
            narrowed(true, "address"),
            narrowed(!is_narrow, "head0"),
        )
    }
}

#[test]
fn addresses_keep_their_proofs() {
    let (cases, seed) = (number("TILEWRIGHT_PROVE_CASES", 300), number("TILEWRIGHT_PROVE_SEED", 1));
    let (mut all, mut faults) = ([0; 3], 0);
    for case in 0..cases {
        let mut rng = Rng::new(seed.wrapping_add(case) ^ 0x51a7);
        let made = Addressed::random(&mut rng);
        let kernel = verified(&made.text());
        let proof = kernel.prove();
        for (sum, count) in all.iter_mut().zip(counts(&proof)) {
            *sum += count;
        }
        assert!(proof.is_complete() || !made.is_aligned(), "{made:?}\n{proof}");
        for _ in 0..LAUNCHES {
            let columns = rng.below(24) as i32;
            let start = rng.below(9) as i64;
            let short = *rng.pick(&[0, 0, 0, 1]);
            let len = (start + i64::from(columns) - short).max(0);
            let y = GlobalBuffer::from_slice(&vec![3i32; len as usize]);
            let args = [
                KernelArg::Buffer(&y),
                KernelArg::Scalar(start.to_const()),
                KernelArg::Scalar(columns.to_const()),
            ];
            let values = LaunchValues::new(
                [1, 1, 1],
                [8, 1, 1],
                vec![
                    LaunchValue::Buffer { len: len as u64, alignment: 4 },
                    LaunchValue::Integer(start.into()),
                    LaunchValue::Integer(columns.into()),
                ],
            );
            let options = Options::default().race(false).fuel(1 << 15).threads(1);
            let grid = Grid::new([1, 1, 1], [8, 1, 1]);
            let shown = check(kernel.ir(), &proof, grid, &args, &values, &options);
            faults += usize::from(shown == Shown::FaultAtOpen);
            if made.is_aligned() && short == 0 {
                let mut conditions = proof.conditions().iter();
                assert!(conditions.all(|one| one.holds(&values)), "{made:?}\n{values:?}\n{proof}");
            }
        }
    }
    println!(
        "{cases} kernels with {all:?} obligations proved, by conditions and open; {faults} faults"
    );
    assert!(faults > 0);
}
