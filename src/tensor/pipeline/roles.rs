//! [`warp_roles`]: gives a block's warp groups different roles, such as producer and consumer. Use
//! it at the top of a warp-specialised kernel.

use crate::ir::op::SetmaxnregAction;
use crate::ir::{Body, LaunchBounds, Val, WARP};

use crate::tensor::error::{TensorError, TensorErrorKind, count_of};

/// A role of warp groups in a warp-specialised kernel, for example producer: how many warp groups
/// have it, and how many registers their threads get. Pass the roles to [`warp_roles`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WarpRole {
    groups: u32,
    registers: Option<u32>,
}

impl WarpRole {
    /// The threads of a warp group.
    pub const THREADS: u32 = 128;

    /// Makes a role for the next `groups` warp groups, which keep the registers of the launch.
    pub const fn new(groups: u32) -> WarpRole {
        WarpRole { groups, registers: None }
    }

    /// Makes a producer and a consumer role. `groups` counts the warp groups of each, `registers`
    /// the registers per thread of each. Use it for the usual GEMM block, for example one producer
    /// group with 40 registers and two consumer groups with 232.
    pub fn producers_and_consumers(groups: [u32; 2], registers: Option<[u32; 2]>) -> [WarpRole; 2] {
        let [fetch, multiply] = registers.map_or([None; 2], |counts| counts.map(Some));
        let [producers, consumers] = groups.map(WarpRole::new);
        [producers.registers(fetch), consumers.registers(multiply)]
    }

    /// Sets the registers per thread, a multiple of 8. `None` keeps what the launch gives. Use it
    /// to give a producer's registers to the consumers.
    pub const fn registers(self, count: Option<u32>) -> WarpRole {
        WarpRole { registers: count, ..self }
    }
}

/// Splits a block's warp groups into roles: runs `body` once per role, with the role's index (a
/// host value) and the warp group's index within the role. CUTLASS's warp specialisation.
///
/// `entry` is the registers that each thread has at kernel entry. A role with another count first
/// moves registers with `setmaxnreg`. The group's index is uniform over a warp, and `ptxas` knows
/// that.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{GlobalMut, Kernel, Target};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::pipeline::{WarpRole, warp_roles};
///
/// let kernel = Kernel::<(GlobalMut<i32>,)>::build("roles", Target::SM_90A, |k, (x,)| {
///     let roles = [WarpRole::new(1), WarpRole::new(2)];
///     let t = k.thread_idx().x;
///     warp_roles(k, &roles, 168, |_, role, group| x.store(t, group + 10 * role));
/// })?;
/// let device = Device::sim()?;
/// let mut x = device.zeros::<i32>(384)?;
/// device.load(&kernel)?.launch(Grid::cover(384, 384), (&mut x,))?;
/// let x = x.to_vec()?;
/// assert_eq!([x[0], x[127], x[128], x[256], x[383]], [0, 0, 10, 11, 11]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// It is a build error if there are no roles, if a role has no groups, or if the groups do not add
/// up to the block, provided that its size is known.
#[track_caller]
pub fn warp_roles<'b>(
    k: &mut Body<'b, '_>,
    roles: &[WarpRole],
    entry: u32,
    mut body: impl for<'c> FnMut(&mut Body<'c, 'b>, u32, Val<'c, i32>),
) {
    if let Err(kind) = check(k, roles) {
        let groups: Vec<u32> = roles.iter().map(|role| role.groups).collect();
        let operand = format!("roles of {groups:?} warp groups");
        return k.report(TensorError { operation: "warp_roles", operand, kind });
    }
    // All lanes compute the same index, but `ptxas` knows it only for what a lane broadcasts.
    // Values derived from a broadcast stay in uniform registers.
    let group = k.shfl_idx(WARP, k.thread_idx().x / WarpRole::THREADS, 0);
    let numbered: Vec<(u32, &WarpRole)> = (0..).zip(roles).collect();
    let Some((&(last_number, last), others)) = numbered.split_last() else { return };
    let mut run = |k: &mut Body<'_, 'b>, role: &WarpRole, number: u32, first: u32| {
        let group = if first == 0 { group } else { group - first };
        if let Some(count) = role.registers {
            let action = if count < entry { SetmaxnregAction::Dec } else { SetmaxnregAction::Inc };
            k.setmaxnreg(action, count);
        }
        body(k, number, group);
    };
    // Each role's first group, and whether the thread's group comes before its end.
    let mut ends = Vec::new();
    let mut end = 0;
    for (_, role) in others {
        let first = end;
        end += role.groups;
        ends.push((first, group.lt(end)));
    }
    let mut all = others.iter().zip(ends);
    let Some(((number, role), (first, mine))) = all.next() else {
        let always = k.constant(true);
        return k.if_(always, |k| run(k, last, 0, 0));
    };
    let mut chain = k.cases().when::<(), ()>(mine, |k| run(k, role, *number, first));
    for ((number, role), (first, mine)) in all {
        chain = chain.when(mine, |k| run(k, role, *number, first));
    }
    chain.otherwise(|k| run(k, last, last_number, end));
}

fn check(k: &Body<'_, '_>, roles: &[WarpRole]) -> Result<(), TensorErrorKind> {
    const MAX: u32 = LaunchBounds::MAX_THREADS / WarpRole::THREADS;
    count_of("roles", u32::try_from(roles.len()).unwrap_or(u32::MAX), [1, MAX])?;
    for role in roles {
        count_of("warp groups in a role", role.groups, [1, MAX])?;
    }
    let threads = roles.iter().map(|role| role.groups * WarpRole::THREADS).sum();
    match k.block_shape() {
        None => count_of("threads in all roles together", threads, [1, LaunchBounds::MAX_THREADS]),
        Some([x, _, _]) => count_of("threads in all roles together", threads, [x, x]),
    }
}
