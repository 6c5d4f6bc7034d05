//! The counters that a diagnosis uses, typed. All that the profiler printed is kept beside them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::stall::Stall;

/// What was counted during one launch. Shares are of one, times are seconds, sizes are bytes; what the
/// profiler could not say is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// The launch's duration under the profiler, which replays it and flushes caches; not a time to
    /// compare with.
    pub duration_s: Option<f64>,
    /// Multiprocessors of the device.
    pub sms: Option<f64>,
    /// Blocks of the grid.
    pub grid_blocks: Option<f64>,
    /// Threads of a block.
    pub block_threads: Option<f64>,
    /// Registers of a thread.
    pub registers: Option<f64>,
    /// Shared memory of a block, in bytes, the system's own included.
    pub smem_bytes: Option<f64>,
    /// Blocks of a multiprocessor that registers allow.
    pub limit_registers: Option<f64>,
    /// Blocks of a multiprocessor that shared memory allows.
    pub limit_smem: Option<f64>,
    /// Blocks of a multiprocessor that its number of warps allows.
    pub limit_warps: Option<f64>,
    /// Blocks of a multiprocessor at most.
    pub limit_blocks: Option<f64>,
    /// Blocks of a multiprocessor that its number of barriers allows.
    pub limit_barriers: Option<f64>,
    /// The share of a multiprocessor's warps that can be resident.
    pub occupancy_possible: Option<f64>,
    /// The share that was resident, while the multiprocessor was active.
    pub occupancy: Option<f64>,
    /// The share of the launch during which a multiprocessor was active, on average.
    pub sm_active: Option<f64>,
    /// The share of cycles in which a scheduler issued an instruction, while active.
    pub issue_active: Option<f64>,
    /// The busiest part of the multiprocessors, as a share of its peak.
    pub sm_throughput: Option<f64>,
    /// The busiest part of the memory system, as a share of its peak.
    pub memory_throughput: Option<f64>,
    /// Device memory, as a share of its peak.
    pub dram_throughput: Option<f64>,
    /// The second-level cache, as a share of its peak.
    pub l2_throughput: Option<f64>,
    /// The first-level cache and shared memory, as a share of their peak.
    pub l1_throughput: Option<f64>,
    /// The share of the launch during which the matrix units were busy.
    pub tensor_active: Option<f64>,
    /// The same for fused multiply-adds.
    pub fma_active: Option<f64>,
    /// The same for double precision.
    pub fp64_active: Option<f64>,
    /// The same for special functions.
    pub xu_active: Option<f64>,
    /// Bytes read from device memory.
    pub dram_read_bytes: Option<f64>,
    /// Bytes written to device memory.
    pub dram_write_bytes: Option<f64>,
    /// The share of accesses that the first-level cache answered.
    pub l1_hit_rate: Option<f64>,
    /// The share of accesses that the second-level cache answered.
    pub l2_hit_rate: Option<f64>,
    /// Bytes that threads used of each 32-byte sector they loaded.
    pub load_bytes_per_sector: Option<f64>,
    /// Sectors of global loads.
    pub load_sectors: Option<f64>,
    /// Bytes that threads wrote of each 32-byte sector they stored to.
    pub store_bytes_per_sector: Option<f64>,
    /// Passes through shared memory.
    pub shared_wavefronts: Option<f64>,
    /// Those of them that only bank conflicts made necessary.
    pub bank_conflicts: Option<f64>,
    /// Instructions that read or wrote local memory, where spilled registers are.
    pub local_instructions: Option<f64>,
    /// Instructions, as warps execute them.
    pub instructions: Option<f64>,
    /// Warps that waited for each reason, per issued instruction.
    pub stalls: BTreeMap<Stall, f64>,
}

impl Counters {
    /// Takes what is known from the profiler's metrics, whose names differ between its versions.
    pub fn from_metrics(metrics: &BTreeMap<String, f64>) -> Self {
        let one = |name: &str| metrics.get(name).copied();
        let sum = |names: [&str; 2]| {
            let found: Vec<f64> = names.into_iter().filter_map(one).collect();
            (!found.is_empty()).then(|| found.iter().sum())
        };
        let elapsed = |unit: &str| one(&format!("{unit}.avg.pct_of_peak_sustained_elapsed"));
        // Which of these counts the instruction at hand depends on the architecture.
        let tensor = [
            "sm__pipe_tensor_cycles_active",
            "sm__pipe_tensor_op_hmma_cycles_active",
            "sm__pipe_tensor_type_hmma_hgmma_qgmma_imma_igmma_bmma_bgmma_cycles_active",
            "sm__pipe_tensor_op_imma_cycles_active",
            "sm__pipe_tensor_op_dmma_cycles_active",
        ];
        let conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared";
        let sm_active = one("sm__cycles_active.avg").zip(one("sm__cycles_elapsed.max"));
        let bytes_per_sector = "smsp__sass_average_data_bytes_per_sector_mem_global_op_";
        Self {
            duration_s: one("gpu__time_duration.sum"),
            sms: one("launch__sm_count"),
            grid_blocks: one("launch__grid_size"),
            block_threads: one("launch__block_size"),
            registers: one("launch__registers_per_thread"),
            smem_bytes: one("launch__shared_mem_per_block"),
            limit_registers: one("launch__occupancy_limit_registers"),
            limit_smem: one("launch__occupancy_limit_shared_mem"),
            limit_warps: one("launch__occupancy_limit_warps"),
            limit_blocks: one("launch__occupancy_limit_blocks"),
            limit_barriers: one("launch__occupancy_limit_barriers"),
            occupancy_possible: one("sm__maximum_warps_per_active_cycle_pct"),
            occupancy: one("sm__warps_active.avg.pct_of_peak_sustained_active"),
            sm_active: sm_active
                .filter(|(_, elapsed)| *elapsed > 0.0)
                .map(|(active, elapsed)| (active / elapsed).min(1.0)),
            issue_active: one("smsp__issue_active.avg.pct_of_peak_sustained_active"),
            sm_throughput: elapsed("sm__throughput"),
            memory_throughput: elapsed("gpu__compute_memory_throughput"),
            dram_throughput: elapsed("gpu__dram_throughput"),
            l2_throughput: elapsed("lts__throughput"),
            l1_throughput: elapsed("l1tex__throughput"),
            tensor_active: tensor.into_iter().filter_map(elapsed).reduce(f64::max),
            fma_active: elapsed("sm__pipe_fma_cycles_active"),
            fp64_active: elapsed("sm__pipe_fp64_cycles_active"),
            xu_active: elapsed("sm__inst_executed_pipe_xu"),
            dram_read_bytes: one("dram__bytes_read.sum"),
            dram_write_bytes: one("dram__bytes_write.sum"),
            l1_hit_rate: one("l1tex__t_sector_hit_rate.pct"),
            l2_hit_rate: one("lts__t_sector_hit_rate.pct"),
            load_bytes_per_sector: one(&format!("{bytes_per_sector}ld.ratio")),
            load_sectors: one("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"),
            store_bytes_per_sector: one(&format!("{bytes_per_sector}st.ratio")),
            shared_wavefronts: one("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"),
            bank_conflicts: one(&format!("{conflicts}.sum")),
            local_instructions: sum([
                "smsp__sass_inst_executed_op_local_ld.sum",
                "smsp__sass_inst_executed_op_local_st.sum",
            ]),
            instructions: one("smsp__inst_executed.sum"),
            stalls: Stall::ALL
                .into_iter()
                .filter_map(|stall| {
                    let name = stall.name();
                    let metric =
                        format!("smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio");
                    Some((stall, one(&metric)?))
                })
                .collect(),
        }
    }

    /// Returns the bytes that device memory read and wrote.
    pub fn dram_bytes(&self) -> Option<f64> {
        Some(self.dram_read_bytes? + self.dram_write_bytes?)
    }

    /// Returns the blocks that a multiprocessor holds at once, and what keeps it from holding more.
    pub fn resident_blocks(&self) -> Option<(f64, &'static str)> {
        [
            // Of equal limits the first is named: what is full is not worth changing the others for.
            (self.limit_warps, "the number of warps"),
            (self.limit_blocks, "the number of blocks"),
            (self.limit_registers, "registers"),
            (self.limit_smem, "shared memory"),
            (self.limit_barriers, "barriers"),
        ]
        .into_iter()
        .filter_map(|(limit, what)| Some((limit?, what)))
        .filter(|(limit, _)| *limit >= 1.0)
        .min_by(|(one, _), (other, _)| one.total_cmp(other))
    }

    /// Returns how many times the grid fills the device.
    pub fn waves(&self) -> Option<f64> {
        let (resident, _) = self.resident_blocks()?;
        Some(self.grid_blocks? / (self.sms? * resident)).filter(|waves| waves.is_finite())
    }

    /// Returns the share of warps' time that each reason takes, largest first; the shares sum to one.
    pub fn stall_shares(&self) -> Vec<(Stall, f64)> {
        let total: f64 = self.stalls.values().sum();
        if total <= 0.0 {
            return Vec::new();
        }
        let mut shares: Vec<(Stall, f64)> =
            self.stalls.iter().map(|(stall, warps)| (*stall, warps / total)).collect();
        shares.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        shares
    }
}
