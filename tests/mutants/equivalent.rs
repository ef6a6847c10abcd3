//! Mutants that are correct kernels, each with the reason.

use super::operators::Mutant;

/// The kernel, the operator of a class, the text of the line with the number of such sites, and the
/// reason.
type Entry = (&'static str, (&'static str, &'static str), (&'static str, usize), &'static str);

const OTHER_MEMORY: &str = "the barrier passes an access to memory that no other thread accesses";
const EQUAL: &str = "all lanes write the value that the first lane writes";

const LAST_STEP: &str = "the barrier of the block follows the last step";
const OBSERVED: &str = "the load has observed the flag, so the store follows it without the fence";

const EQUIVALENT: &[Entry] = &[
    (
        "tree reduction",
        ("drop barrier", "only of the warp"),
        ("barrier", 1),
        "the sums of the second step are written and read by the first warp",
    ),
    (
        "tree reduction",
        ("guard", "drop"),
        ("if %low {", 1),
        "the guards inside leave the other warps nothing to do",
    ),
    ("tree reduction", ("__syncwarp", "drop"), ("bar_warp %all", 1), LAST_STEP),
    ("tree reduction", ("move barrier", "one access earlier"), ("barrier", 1), OTHER_MEMORY),
    ("transpose", ("move barrier", "one access earlier"), ("barrier", 1), OTHER_MEMORY),
    ("softmax", ("move barrier", "one access later"), ("barrier", 1), OTHER_MEMORY),
    ("cp.async mbarrier", ("move barrier", "one access earlier"), ("barrier", 1), OTHER_MEMORY),
    ("mbarrier ring", ("__syncwarp", "one access earlier"), ("bar_warp %all", 1), OTHER_MEMORY),
    ("softmax", ("guard", "drop"), ("if %leads {", 2), EQUAL),
    ("last block", ("guard", "drop"), ("if %leads {", 1), EQUAL),
    (
        "message",
        ("guard", "drop"),
        ("if %first {", 2),
        "all lanes set or await the flag as the first lane does",
    ),
    (
        "grid barrier",
        ("drop barrier", "drop"),
        ("barrier", 1),
        "threads but the first of a block access no memory",
    ),
    (
        "grid barrier",
        ("drop barrier", "only of the warp"),
        ("barrier", 1),
        "threads but the first of a block access no memory",
    ),
    (
        "wgmma loop",
        ("drop barrier", "drop"),
        ("barrier", 1),
        "a wait of one warp ends when the `wgmma` of its whole warp group has ended",
    ),
    (
        "wgmma loop",
        ("drop barrier", "only of the warp"),
        ("barrier", 1),
        "a wait of one warp ends when the `wgmma` of its whole warp group has ended",
    ),
    (
        "st.async",
        ("mbarrier init fence", "drop"),
        ("fence_mbarrier_init", 1),
        "the barrier of the cluster releases the initialisation to threads, and no other proxy uses the mbarrier",
    ),
    (
        "st.async",
        ("cluster arrival", "relaxed"),
        ("barrier_cluster_arrive", 1),
        "before the first round it orders the fenced initialisation only",
    ),
    (
        "multicast",
        ("cluster arrival", "relaxed"),
        ("barrier_cluster_arrive", 1),
        "it only keeps the shared memory of the block alive",
    ),
    (
        "TMA store ring",
        ("guard", "drop"),
        ("if %leads {", 2),
        "other threads have no groups to wait for",
    ),
    (
        "bulk store ring",
        ("guard", "drop"),
        ("if %leads {", 2),
        "other threads have no groups to wait for",
    ),
    (
        "PDL chain",
        ("programmatic launch", "drop start of dependents"),
        ("griddepcontrol_launch_dependents", 1),
        "each launch then starts at the end of the one before",
    ),
    (
        "cp.async ring",
        ("ring", "one stage fewer"),
        ("%pr = rem %zero, %stages : i32", 1),
        "0 % 2 is 0 % 3",
    ),
    (
        "cp.async ring",
        ("ring", "one stage fewer"),
        ("%qr = rem %one, %stages : i32", 1),
        "1 % 2 is 1 % 3",
    ),
    (
        "cp.async ring",
        ("drop barrier", "only of the warp"),
        ("barrier ;filled", 1),
        "the block has one warp",
    ),
    (
        "tree reduction",
        ("thread index", "two threads to one element"),
        ("st %s, %t, %c1", 1),
        "only thread 0 stores",
    ),
    ("long ring", ("__syncwarp", "one access earlier"), ("bar_warp %all", 1), OTHER_MEMORY),
    ("tree reduction", ("collective as fence", "shuffle"), ("bar_warp %all", 1), LAST_STEP),
    ("tree reduction", ("collective as fence", "vote"), ("bar_warp %all", 1), LAST_STEP),
    ("tree reduction", ("collective as fence", "match"), ("bar_warp %all", 1), LAST_STEP),
    ("tree reduction", ("collective as fence", "reduction"), ("bar_warp %all", 1), LAST_STEP),
    (
        "cluster exchange",
        ("cluster barrier", "one access earlier"),
        ("barrier_cluster_arrive<, relaxed>", 1),
        OTHER_MEMORY,
    ),
    (
        "start guard",
        ("cluster barrier", "one access earlier"),
        ("barrier_cluster_arrive<, relaxed>", 1),
        OTHER_MEMORY,
    ),
    (
        "st.async",
        ("cluster barrier", "one access earlier"),
        ("barrier_cluster_arrive", 1),
        OTHER_MEMORY,
    ),
    (
        "remote arrivals",
        ("mbarrier init fence", "drop"),
        ("fence_mbarrier_init", 1),
        "the barrier of the cluster releases the initialisation to threads, and no other proxy uses the mbarrier",
    ),
    ("last block, reset", ("guard", "drop"), ("if %first {", 1), EQUAL),
    (
        "flags with reset",
        ("thread index", "two threads to one element"),
        ("st %y, %t, %v", 1),
        "the block has one thread",
    ),
    ("flags with reset", ("reset", "too early"), ("st %flags, %one, %zero ;reset", 1), OBSERVED),
    ("flags with reset", ("reset", "too early"), ("st %flags, %zero, %zero ;reset", 1), OBSERVED),
];

/// Returns the reason for which a mutant may be a correct kernel: it is one if nothing shows.
pub(crate) fn reason(kernel: &str, mutant: &Mutant) -> Option<&'static str> {
    let is = |entry: &&Entry| {
        let (name, (class, operator), site, _) = entry;
        *name == kernel
            && *class == mutant.class
            && *operator == mutant.operator
            && site.0 == mutant.site
    };
    EQUIVALENT.iter().find(is).map(|(.., reason)| *reason)
}

/// The number of mutants that are correct kernels.
pub(crate) fn count() -> usize {
    EQUIVALENT.iter().map(|(_, _, (_, count), _)| count).sum()
}
