//! rustdoc's search finds names of CuTe, CUDA and Triton.

use std::collections::BTreeMap;

use super::{files, is_word};

/// Names that a reader brings along, and the function that the search shows.
const NAMES: [(&str, &str); 61] = [
    // CuTe
    ("compose", "composition"),
    ("make_layout", "new"),
    ("make_ordered_layout", "ordered"),
    ("make_identity_layout", "identity"),
    ("make_layout_like", "layout_like"),
    ("make_swizzle", "new"),
    ("make_composed_layout", "new"),
    ("logical_divide", "logical_divide"),
    ("make_tensor", "new"),
    ("make_fragment", "registers"),
    ("make_identity_tensor", "identity"),
    ("recast_tensor", "recast"),
    ("make_tiled_copy", "new"),
    ("make_tiled_copy_tv", "from_tv"),
    ("make_tiled_mma", "new"),
    ("get_slice", "slice"),
    ("partition_S", "partition_s"),
    ("partition_fragment_A", "fragment_a"),
    ("local_tile", "local_tile"),
    ("warpgroup_arrive", "wgmma_fence"),
    ("warpgroup_wait", "wgmma_wait_group"),
    ("cp_async_fence", "cp_async_commit_group"),
    ("elect_one", "elect"),
    ("SM90_TMA_LOAD", "cp_async_bulk_tensor_load"),
    // CUDA
    ("threadIdx", "thread_idx"),
    ("blockIdx", "block_idx"),
    ("blockDim", "block_dim"),
    ("gridDim", "grid_dim"),
    ("syncthreads", "barrier"),
    ("__syncthreads", "barrier"),
    ("__syncthreads_count", "red_popc"),
    ("__syncwarp", "bar_warp"),
    ("__threadfence", "fence"),
    ("atomicAdd", "atom"),
    ("atomicCAS", "cas"),
    ("atomicExch", "exch"),
    ("__shfl_xor_sync", "shfl_bfly"),
    ("__ballot_sync", "vote_ballot"),
    ("__shared__", "shared"),
    ("__constant__", "const_array"),
    ("__device__", "global_array"),
    ("__launch_bounds__", "max_threads"),
    ("__ldg", "load_with"),
    ("__expf", "exp_fast"),
    ("rsqrtf", "rsqrt"),
    ("__dp4a", "dp4a"),
    ("BlockReduce", "reduce"),
    ("__pipeline_memcpy_async", "cp_async"),
    ("cudaGridDependencySynchronize", "griddepcontrol_wait"),
    ("cudaMemcpy", "upload"),
    ("cudaDeviceSynchronize", "synchronize"),
    // Triton
    ("tl.load", "load"),
    ("tl.store", "store"),
    ("tl.program_id", "block_idx"),
    ("tl.where", "select"),
    ("tl.dot", "mma_sync"),
    ("tl.sum", "sum"),
    ("tl.associative_scan", "scan"),
    ("tl.atomic_add", "atom"),
    ("tl.multiple_of", "assume_aligned"),
    ("tl.device_print", "printf"),
];

/// The public functions of the library, each with the names that the search finds it by.
fn functions() -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (_, text) in files("src", "rs") {
        let mut aliases = Vec::new();
        let mut in_list = false;
        for line in text.lines().map(str::trim) {
            if in_list || line.starts_with("#[doc(alias") {
                aliases.extend(line.split('"').skip(1).step_by(2).map(str::to_owned));
                in_list = !line.ends_with(")]");
            } else if let Some((before, after)) = line.split_once("fn ") {
                if before.starts_with("pub ") {
                    let name: String = after.chars().take_while(|c| is_word(Some(*c))).collect();
                    found.entry(name).or_default().append(&mut aliases);
                }
                aliases.clear();
            } else if line.is_empty() {
                aliases.clear();
            }
        }
    }
    found
}

#[test]
fn names_of_cute_cuda_and_triton_are_found() {
    let functions = functions();
    let is_found = |(theirs, ours): &(&str, &str)| {
        functions
            .get(*ours)
            .is_some_and(|names| ours == theirs || names.iter().any(|name| name == theirs))
    };
    let missing: Vec<_> = NAMES.iter().filter(|names| !is_found(names)).collect();
    assert!(missing.is_empty(), "the search does not find (name, function): {missing:?}");
}
