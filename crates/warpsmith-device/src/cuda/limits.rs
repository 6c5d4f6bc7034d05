//! What the hardware demands of launches and tensor maps, checked before the driver says
//! `invalid argument` about it; and which launches leave nothing of it to anybody else.

use super::compile::Resources;
use crate::target::{GridLaunch, TensorMapPlan, TensorPlan};

/// What the copy engine's addresses and rows are multiples of, in bytes.
const MAP_ALIGNMENT: u64 = 16;
/// Registers of a multiprocessor, the same on every device since 2014.
const REGISTERS: u32 = 64 << 10;
/// What registers of a thread, and threads of a block, are handed out in.
const REGISTER_UNIT: u32 = 8;
const THREAD_UNIT: u32 = 32;
/// Blocks of a cluster that every device with clusters has room for, and of one that must be asked for.
const MOST_CLUSTER_BLOCKS: u32 = 16;

/// Says what is wrong with a launch, and what to do.
pub fn check_launch(launch: &GridLaunch) -> Result<(), String> {
    let threads: u64 = launch.block.iter().map(|extent| u64::from(*extent)).product();
    if threads > 1024 {
        return Err(format!("a block of {threads} threads; 1024 is the limit"));
    }
    let blocks: u32 = launch.cluster.iter().product();
    if blocks > MOST_CLUSTER_BLOCKS {
        return Err(format!("a cluster of {blocks} blocks; {MOST_CLUSTER_BLOCKS} is the limit"));
    }
    for (axis, (grid, cluster)) in
        ["x", "y", "z"].iter().zip(launch.grid.iter().zip(launch.cluster))
    {
        if grid % cluster != 0 {
            return Err(format!(
                "a grid of {grid} blocks along {axis} does not consist of clusters of {cluster}; round \
                 the grid up, and let the blocks beyond the end do nothing"
            ));
        }
    }
    Ok(())
}

/// Says what is wrong with a tensor map, and what to do.
pub fn check_map(map: &TensorMapPlan, tensor: &TensorPlan) -> Result<(), String> {
    let size = tensor.dtype.size() as u64;
    let elements: u64 = map.extents.iter().product();
    if elements != tensor.elements() as u64 {
        return Err(format!(
            "it has {elements} elements ({:?}), and `{}` has {}",
            map.extents,
            tensor.name,
            tensor.elements()
        ));
    }
    let (Some(extent), Some(box_extent)) = (map.extents.last(), map.box_extents.last()) else {
        return Err("it has no extents".to_string());
    };
    let row = extent * size;
    if map.extents.len() > 1 && !row.is_multiple_of(MAP_ALIGNMENT) {
        return Err(format!(
            "its rows have {row} bytes; the copy engine wants a multiple of {MAP_ALIGNMENT}: demand \
             it with `requires`"
        ));
    }
    let box_row = u64::from(*box_extent) * size;
    if !box_row.is_multiple_of(MAP_ALIGNMENT) {
        return Err(format!(
            "its box is {box_row} bytes wide; the copy engine wants a multiple of {MAP_ALIGNMENT}"
        ));
    }
    if map.swizzle > 0 && box_row > u64::from(map.swizzle) {
        return Err(format!(
            "its box is {box_row} bytes wide, and a swizzle of {} bytes has room for that many: copy \
             several narrower boxes",
            map.swizzle
        ));
    }
    Ok(())
}

/// Says of what a launch takes all that there is, so that a tool which needs some of it too has no room beside
/// it; none where there is room. `resources` are what the compiler reported.
pub(super) fn fills_up(
    launch: &GridLaunch,
    resources: &[Resources],
    smem_per_block: u32,
) -> Option<String> {
    let used = resources.iter().find(|used| used.entry == launch.entry);
    let smem_bytes = launch.smem_bytes + used.map_or(0, |used| used.static_smem_bytes);
    if smem_bytes >= smem_per_block {
        return Some(format!(
            "`{}` takes {smem_bytes} bytes of shared memory, all that a block can have",
            launch.entry
        ));
    }
    let registers = used?.registers;
    let threads: u32 = launch.block.iter().product();
    let one_more = registers.next_multiple_of(REGISTER_UNIT) + REGISTER_UNIT;
    (one_more * threads.next_multiple_of(THREAD_UNIT) > REGISTERS).then(|| {
        format!(
            "`{}` takes {registers} registers for each of {threads} threads, all that there are",
            launch.entry
        )
    })
}

#[cfg(test)]
mod tests {
    use warpsmith_model::DType;
    use warpsmith_model::lab::Role;

    use super::*;

    #[test]
    fn launches_that_no_device_takes_are_named() {
        let check = |grid: [u32; 3], block: [u32; 3], cluster: [u32; 3], expected: &str| {
            let entry = "k".to_string();
            let said = check_launch(&GridLaunch { entry, grid, block, cluster, smem_bytes: 0 });
            let said = said.err().unwrap_or_default();
            assert!(said.contains(expected), "{said}");
            assert_eq!(said.is_empty(), expected.is_empty(), "{said}");
        };
        check([7, 3, 1], [128, 1, 1], [1, 1, 1], "");
        check([8, 1, 1], [128, 1, 1], [2, 1, 1], "");
        check([7, 1, 1], [128, 1, 1], [2, 1, 1], "does not consist of clusters of 2");
        check([8, 1, 1], [1024, 2, 1], [1, 1, 1], "2048 threads");
        check([64, 1, 1], [32, 1, 1], [32, 1, 1], "32 blocks");
    }

    #[test]
    fn maps_that_the_copy_engine_refuses_are_named() {
        let check = |extents: &[u64], box_extents: &[u32], swizzle: u32, expected: &str| {
            let shape = extents.to_vec();
            let (dtype, role) = (DType::F16, Role::Input);
            let tensor = TensorPlan { name: "q".to_string(), shape, dtype, role };
            let box_extents = box_extents.to_vec();
            let map = TensorMapPlan { tensor: 0, extents: extents.to_vec(), box_extents, swizzle };
            let said = check_map(&map, &tensor).err().unwrap_or_default();
            assert!(said.contains(expected), "{said}");
            assert_eq!(said.is_empty(), expected.is_empty(), "{said}");
        };
        check(&[8, 512, 64], &[1, 128, 64], 128, "");
        check(&[8, 512, 128], &[1, 128, 128], 128, "256 bytes wide");
        check(&[100, 33], &[16, 32], 64, "rows have 66 bytes");
        check(&[100, 64], &[16, 12], 64, "24 bytes wide");
        let shape = vec![10];
        let (dtype, role) = (DType::F16, Role::Input);
        let tensor = TensorPlan { name: "q".to_string(), shape, dtype, role };
        let (extents, box_extents) = (vec![4, 16], vec![1, 16]);
        let map = TensorMapPlan { tensor: 0, extents, box_extents, swizzle: 0 };
        assert!(check_map(&map, &tensor).unwrap_err().contains("64 elements"));
    }

    #[test]
    fn launches_that_leave_no_room_are_told_from_those_that_do() {
        let check = |registers: u32, threads: u32, smem: [u32; 2], expected: &str| {
            let entry = "k".to_string();
            let resources = Resources {
                entry: entry.clone(),
                registers,
                static_smem_bytes: smem[0],
                ..Resources::default()
            };
            let (block, one) = ([threads / 2, 2, 1], [1, 1, 1]);
            let launch = GridLaunch { entry, grid: one, block, cluster: one, smem_bytes: smem[1] };
            let said = fills_up(&launch, &[resources], 227 << 10).unwrap_or_default();
            assert!(said.contains(expected), "{said}");
            assert_eq!(said.is_empty(), expected.is_empty(), "{said}");
        };
        check(64, 1024, [0, 0], "64 registers for each of 1024 threads");
        // 57 are handed out as 64.
        check(57, 1024, [0, 0], "57 registers");
        check(56, 1024, [0, 0], "");
        check(168, 384, [0, 0], "168 registers");
        check(96, 512, [0, 200 << 10], "");
        check(32, 128, [0, 227 << 10], "all that a block can have");
        check(32, 128, [1 << 10, 226 << 10], "shared memory");
        check(32, 128, [0, 226 << 10], "");
    }
}
