//! A session in the device process: a module, or a library's product, with what its launches get.
//!
//! Every launch finds other surroundings: the module is loaded anew, so that its variables hold nothing;
//! inputs, outputs and scratch are at other addresses or have other contents; nothing else is mapped.

use cudarc::driver::sys::{CUfunction, CUstream, CUtensorMap};
use warpsmith_model::DType;
use warpsmith_model::rng::Rng;

use super::arena::{
    self, Arena, Content, Item, LEAST_GUARD_BYTES, OWN_PAGES_BYTES, Owner, Placed, guard_bytes,
};
use super::cublaslt::{LibraryAlgorithm, Matrices, Product};
use super::driver::{self, Argument, Buffer, Context, DriverError, Extents, MapShape, Module};
use super::failure::{failure, memory_failure, no_case, scratch_failure};
use super::mapped::PAGE_BYTES;
use super::ranges::{Range, Ranges};
use super::vault::Vault;
use super::wire::{FailureKind, Floor, ScalarWire, ServerFailure, SessionPlan, Spoilt};
use crate::poison::Poison;

/// Every byte of memory that a kernel gives back: NaN in every element type.
pub(super) const LEFT_BEHIND: u8 = 0xff;

/// What scratch is filled with, a word again and again: NaN, numbers near the largest, numbers near zero,
/// and whatever. A kernel that relies on any of it is wrong with the others.
const SCRATCH: [u64; 4] =
    [u64::MAX, 0x7f7f_7f7f_7f7f_7f7f, 0x0101_0101_0101_0101, 0xc0de_5eed_4b1d_f00d];

/// An allocation that fills what is left of a page, so that what comes next is on another one.
const PLUG_BYTES: usize = 64 << 10;

/// Gaps that are tried between two allocations; the first does unless the driver has holes of that size.
const MOST_GAPS: usize = 4;

pub(super) struct ServedSession {
    pub(super) plan: SessionPlan,
    pub(super) work: Work,
    module: Vec<u8>,
    smem_per_block: u32,
    /// Whether nothing was launched since the module was loaded.
    is_fresh: bool,
    memory: Memory,
    /// The slots of the last launch, each once.
    pub(super) slots: Vec<usize>,
    /// What the outputs of each of them held before it.
    poisons: Vec<Poison>,
    /// By slot, how often it was launched.
    n_launches: Vec<usize>,
    rng: Rng,
}

/// What a session runs.
pub(super) enum Work {
    Kernel {
        /// Unloaded after everything that refers to it.
        _module: Module,
        functions: Vec<CUfunction>,
    },
    /// A library's product of the tensors at these places.
    Product { product: Product, a: usize, b: usize, c: usize },
}

/// The memory of a session's launches.
enum Memory {
    /// Before the first launch.
    None,
    Arena(Arena),
    Separate(Vec<(Owner, Buffer)>),
}

impl Memory {
    fn at(&self, owner: Owner) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Arena(arena) => arena.at(owner).map(|it| it.at),
            Self::Separate(buffers) => {
                buffers.iter().find(|(known, _)| *known == owner).map(|(_, buffer)| buffer.at)
            }
        }
    }
}

impl ServedSession {
    pub(super) fn new(
        plan: &SessionPlan,
        work: Work,
        module: &[u8],
        smem_per_block: u32,
        rng: Rng,
    ) -> Self {
        Self {
            plan: plan.clone(),
            work,
            module: module.to_vec(),
            smem_per_block,
            is_fresh: true,
            memory: Memory::None,
            slots: Vec::new(),
            poisons: Vec::new(),
            n_launches: vec![0; plan.cases.len()],
            rng,
        }
    }

    /// Loads the module again, unless nothing has run since it was: what one launch left in its variables is
    /// nothing for the next.
    pub(super) fn refresh(&mut self) -> Result<(), ServerFailure> {
        if !self.is_fresh
            && let Work::Kernel { .. } = &self.work
        {
            self.work = load_kernel(&self.plan, &self.module, self.smem_per_block)?;
        }
        self.is_fresh = false;
        Ok(())
    }

    /// Puts inputs, poison and guards where a launch of these slots shall find them.
    pub(super) fn lay(
        &mut self,
        context: &Context,
        vault: &Vault,
        ranges: &mut Ranges,
        slots: &[usize],
        poisons: &[Option<Poison>],
        seals_inputs: bool,
    ) -> Result<(), ServerFailure> {
        let items = self.items(vault, slots)?;
        self.poisons = self
            .slots
            .iter()
            .map(|slot| {
                let at = slots.iter().position(|launched| launched == slot);
                let asked = at.and_then(|at| *poisons.get(at)?);
                drawn_poison(asked, self.n_launches[*slot], &mut self.rng)
            })
            .collect();
        let arena = self.arena(context, &items)?;
        if seals_inputs {
            arena.permit_writing_inputs().map_err(failure)?;
        }
        let scratch = SCRATCH[self.rng.below(SCRATCH.len())];
        let Memory::Arena(arena) = &self.memory else { return Err(no_memory()) };
        let table: Vec<Range> = arena
            .ranges(|it| self.content(vault, it, scratch))
            .into_iter()
            .map(|(_, range)| range)
            .collect();
        let cases = self.cases();
        vault.opened(&cases, || ranges.fill(context, &table, arena.key)).map_err(failure)?;
        if seals_inputs {
            arena.forbid_writing_inputs().map_err(failure)?;
        }
        ranges.touch(context, &table).map_err(failure)?;
        ranges.wipe(context).map_err(failure)?;
        for slot in &self.slots {
            self.n_launches[*slot] += 1;
        }
        Ok(())
    }

    /// Returns what the last launch altered beside its outputs.
    pub(super) fn spoilt(
        &self,
        context: &Context,
        vault: &Vault,
        ranges: &mut Ranges,
    ) -> Result<Vec<Spoilt>, ServerFailure> {
        let Memory::Arena(arena) = &self.memory else { return Err(no_memory()) };
        // What outputs and scratch hold is the kernel's affair; of their last words it is a part.
        let (owners, table): (Vec<Owner>, Vec<Range>) = arena
            .ranges(|it| self.content(vault, it, 0))
            .into_iter()
            .filter(|(_, range)| range.source != 0 || range.mask != u64::MAX)
            .unzip();
        let cases = self.cases();
        let intact =
            vault.opened(&cases, || ranges.check(context, &table, arena.key)).map_err(failure)?;
        let mut spoilt = Vec::new();
        for (owner, _) in owners.into_iter().zip(intact).filter(|(_, is_intact)| !is_intact) {
            let what = match owner {
                Owner::Input { place, input } => Spoilt::Input { slot: self.slots[place], input },
                Owner::Output { place, output } => {
                    Spoilt::BesideOutput { slot: self.slots[place], output }
                }
                Owner::Scratch(scratch) => Spoilt::BesideScratch { scratch },
            };
            if !spoilt.contains(&what) {
                spoilt.push(what);
            }
        }
        Ok(spoilt)
    }

    /// Puts everything of all slots, unless it is there, where somebody watches their launches; without a kernel of
    /// ours, which would be watched too.
    pub(super) fn lay_watched(
        &mut self,
        context: &Context,
        vault: &Vault,
        floor: Floor,
    ) -> Result<(), ServerFailure> {
        if !self.slots.is_empty() {
            return Ok(());
        }
        let slots: Vec<usize> = (0..self.plan.cases.len()).collect();
        let items = self.items(vault, &slots)?;
        self.poisons = vec![Poison::Nan; slots.len()];
        match floor {
            Floor::Guarded | Floor::Untouched => {
                self.arena(context, &items)?.fill_guards().map_err(failure)?;
            }
            Floor::Separate => self.separate(&items)?,
        }
        let cases = self.cases();
        let scratch = SCRATCH[self.rng.below(SCRATCH.len())];
        vault.opened(&cases, || {
            for Item { owner, bytes } in &items {
                let at = self.memory.at(*owner).ok_or_else(no_memory)?;
                let placed = Placed { owner: *owner, bytes: *bytes, at };
                match self.content(vault, &placed, scratch) {
                    Content::From(source) => {
                        Buffer::copy_at(at, source, *bytes).map_err(failure)?;
                    }
                    Content::Element(_) if floor == Floor::Untouched => {}
                    Content::Element(element) => {
                        // Words of four bytes at least repeat, and two bytes do where there are fewer.
                        let element = element.to_le_bytes();
                        let whole = bytes / 8 * 8;
                        let content = element.iter().copied().cycle();
                        let content: Vec<u8> = content.take(whole.max(*bytes)).collect();
                        Buffer::write_at(at, &content[..*bytes]).map_err(failure)?;
                    }
                }
            }
            Ok::<(), ServerFailure>(())
        })
    }

    /// Overwrites what the session computed before its memory is freed: it may be the oracle's right
    /// answers, and whoever is given the memory next must not find them.
    pub(super) fn scrub(&self) -> Result<(), ServerFailure> {
        match &self.memory {
            Memory::None => Ok(()),
            Memory::Arena(arena) => arena.scrub(LEFT_BEHIND).map_err(failure),
            Memory::Separate(buffers) => buffers.iter().try_for_each(|(_, buffer)| {
                buffer.fill(0, buffer.bytes, &[LEFT_BEHIND]).map_err(failure)
            }),
        }
    }

    /// Copies the outputs of a slot into memory, one behind the other.
    pub(super) fn read_outputs(
        &self,
        slot: usize,
        mut window: &mut [u8],
    ) -> Result<(), ServerFailure> {
        let place = self.slots.iter().position(|known| *known == slot).ok_or_else(no_case)?;
        for (output, bytes) in self.output_bytes().enumerate() {
            let at = self.memory.at(Owner::Output { place, output }).ok_or_else(no_memory)?;
            let (region, rest) = window.split_at_mut_checked(bytes).ok_or_else(no_memory)?;
            Buffer::read_at(at, region).map_err(failure)?;
            window = rest;
        }
        Ok(())
    }

    fn output_bytes(&self) -> impl Iterator<Item = usize> {
        self.plan.tensors.iter().filter(|tensor| tensor.is_output).map(|tensor| tensor.bytes)
    }

    /// Returns the cases of the last launch.
    fn cases(&self) -> Vec<usize> {
        self.slots.iter().map(|slot| self.plan.cases[*slot]).collect()
    }

    /// Returns what a launch of these slots needs room for.
    fn items(&mut self, vault: &Vault, slots: &[usize]) -> Result<Vec<Item>, ServerFailure> {
        self.slots.clear();
        for slot in slots {
            if *slot >= self.plan.cases.len() {
                return Err(no_case());
            }
            if !self.slots.contains(slot) {
                self.slots.push(*slot);
            }
        }
        let mut items = Vec::new();
        for (place, slot) in self.slots.iter().enumerate() {
            let inputs = vault.inputs(self.plan.cases[*slot]).ok_or_else(no_case)?;
            items.extend(inputs.iter().enumerate().map(|(input, held)| Item {
                owner: Owner::Input { place, input },
                bytes: held.bytes,
            }));
            items.extend(
                self.output_bytes()
                    .enumerate()
                    .map(|(output, bytes)| Item { owner: Owner::Output { place, output }, bytes }),
            );
        }
        items.extend(
            self.plan
                .scratch
                .iter()
                .enumerate()
                .map(|(idx, bytes)| Item { owner: Owner::Scratch(idx), bytes: *bytes as usize }),
        );
        Ok(items)
    }

    /// Makes sure that there is an arena with room for these items, and draws their addresses.
    fn arena(&mut self, context: &Context, items: &[Item]) -> Result<&Arena, ServerFailure> {
        let has_room = matches!(&self.memory, Memory::Arena(arena) if arena.has_room_for(items));
        if !has_room {
            self.scrub()?;
            // The old one goes first: both may not fit.
            self.memory = Memory::None;
            let around = Buffer::new(0).map_err(failure)?.at;
            let arena = Arena::new(context, items, around, &mut self.rng);
            let arena = arena.map_err(|error| {
                let is_scratch = |item: &Item| matches!(item.owner, Owner::Scratch(_));
                let scratch = items.iter().filter(|item| is_scratch(item));
                let scratch_bytes = scratch.map(|item| item.bytes as u64).sum();
                let others: Vec<Item> =
                    items.iter().filter(|item| !is_scratch(item)).copied().collect();
                let rng = &mut self.rng;
                let fits = || Arena::new(context, &others, around, rng).is_ok();
                memory_failure(error, scratch_bytes, fits)
            })?;
            self.memory = Memory::Arena(arena);
        }
        let Memory::Arena(arena) = &mut self.memory else { return Err(no_memory()) };
        arena.place(items, &mut self.rng);
        Ok(arena)
    }

    /// Allocates every item by itself. Between them are gaps as wide as guards elsewhere, inputs and outputs are
    /// on different pages and begin anywhere in them, and either come first, as they do in an arena: neither
    /// addresses nor distances say anything.
    fn separate(&mut self, items: &[Item]) -> Result<(), ServerFailure> {
        self.memory = Memory::None;
        let allocate = |bytes: usize| Buffer::new(bytes).map_err(failure);
        // It fitted before a tool watched, so what does not now is the kernel's own wish.
        let allocate_for = |owner: Owner, bytes: usize| match owner {
            Owner::Scratch(_) => {
                Buffer::new(bytes).map_err(|error| scratch_failure(error, bytes as u64))
            }
            Owner::Input { .. } | Owner::Output { .. } => allocate(bytes),
        };
        let mut gaps = Vec::new();
        let mut buffers: Vec<(Owner, Buffer)> = Vec::new();
        for group in drawn_groups(items, &mut self.rng) {
            turn_page(&mut gaps)?;
            let mut before = arena::drawn_start(&group, &mut self.rng);
            while before > 0 {
                let plug = before.min(PLUG_BYTES);
                gaps.push(allocate(plug)?);
                before -= plug;
            }
            for Item { owner, bytes } in group {
                gaps.push(allocate(guard_bytes(&mut self.rng))?);
                let mut buffer = allocate_for(owner, bytes)?;
                // What has pages of its own may lie right behind another such thing, however wide a gap
                // there is among what is smaller: then nobody sees that a kernel goes beyond either.
                for _ in 0..MOST_GAPS {
                    if !buffers.iter().any(|(_, other)| are_neighbours(other, &buffer)) {
                        break;
                    }
                    if bytes < OWN_PAGES_BYTES {
                        gaps.push(buffer);
                    } else {
                        drop(buffer);
                        gaps.push(allocate(OWN_PAGES_BYTES)?);
                    }
                    buffer = allocate_for(owner, bytes)?;
                }
                buffers.push((owner, buffer));
            }
        }
        self.memory = Memory::Separate(buffers);
        Ok(())
    }

    /// Says what a launch finds in a place.
    fn content(&self, vault: &Vault, placed: &Placed, scratch: u64) -> Content {
        match placed.owner {
            Owner::Input { place, input } => {
                let case = self.plan.cases[self.slots[place]];
                let held = vault.inputs(case).and_then(|inputs| inputs.get(input));
                held.map_or(Content::Element(u64::MAX), |held| Content::From(held.at))
            }
            Owner::Output { place, output } => {
                let mut outputs = self.plan.tensors.iter().filter(|tensor| tensor.is_output);
                let dtype = outputs.nth(output).map_or(DType::F32, |tensor| tensor.dtype);
                let poison = self.poisons.get(place).copied().unwrap_or_default();
                Content::Element(poison_word(dtype, poison))
            }
            Owner::Scratch(_) => Content::Element(scratch),
        }
    }

    /// Puts the launches into the stream, once for each list of arguments.
    pub(super) fn enqueue(
        &self,
        stream: CUstream,
        arguments: &mut [Vec<Argument>],
    ) -> Result<(), DriverError> {
        for arguments in arguments {
            match &self.work {
                Work::Kernel { functions, .. } => {
                    for (launch, function) in self.plan.launches.iter().zip(functions) {
                        let extents = Extents {
                            grid: launch.grid,
                            block: launch.block,
                            cluster: launch.cluster,
                            smem: launch.smem,
                        };
                        driver::launch(stream, *function, extents, arguments)?;
                    }
                }
                Work::Product { product, a, b, c } => {
                    let at = |place: usize| match arguments[place] {
                        Argument::Pointer(at) => at,
                        _ => unreachable!("tensors come first among the arguments"),
                    };
                    let matrices = Matrices { a: at(*a), b: at(*b), c: at(*c) };
                    product.enqueue(stream, matrices)?;
                }
            }
        }
        Ok(())
    }

    /// Computes by another of the algorithms that a library proposes.
    pub(super) fn take(&mut self, proposal: LibraryAlgorithm) {
        if let Work::Product { product, .. } = &mut self.work {
            product.choose(proposal);
        }
    }

    /// Returns what a launch of a slot is given.
    pub(super) fn arguments(&self, slot: usize) -> Result<Vec<Argument>, ServerFailure> {
        let place = self.slots.iter().position(|known| *known == slot).ok_or_else(no_case)?;
        let (mut input, mut output) = (0, 0);
        let mut tensors = Vec::new();
        for tensor in &self.plan.tensors {
            let owner = if tensor.is_output {
                output += 1;
                Owner::Output { place, output: output - 1 }
            } else {
                input += 1;
                Owner::Input { place, input: input - 1 }
            };
            tensors.push(self.memory.at(owner).ok_or_else(no_memory)?);
        }
        let mut arguments: Vec<Argument> = tensors.iter().copied().map(Argument::Pointer).collect();
        arguments.extend(self.plan.axes.iter().map(|value| Argument::Int(*value as i32)));
        arguments.extend(self.plan.scalars.iter().map(|scalar| match scalar {
            ScalarWire::Single(value) => Argument::Single(*value),
            ScalarWire::Double(bits) => Argument::Double(f64::from_bits(*bits)),
            ScalarWire::Long(value) => Argument::Long(*value),
        }));
        for scratch in 0..self.plan.scratch.len() {
            let at = self.memory.at(Owner::Scratch(scratch)).ok_or_else(no_memory)?;
            arguments.push(Argument::Pointer(at));
        }
        for map in &self.plan.maps {
            let shape = MapShape {
                dtype: self.plan.tensors[map.tensor].dtype,
                extents: map.extents.clone(),
                box_extents: map.box_extents.clone(),
                swizzle: map.swizzle,
            };
            arguments.push(driver::tensor_map(tensors[map.tensor], &shape).map_err(failure)?);
        }
        Ok(arguments)
    }
}

/// Returns inputs, and outputs with scratch, in random order.
fn drawn_groups(items: &[Item], rng: &mut Rng) -> [Vec<Item>; 2] {
    let (inputs, others) = arena::apart(items);
    let mut groups = [inputs, others];
    rng.shuffle(&mut groups);
    for group in &mut groups {
        rng.shuffle(group);
    }
    groups
}

/// Allocates until small allocations come from another page.
fn turn_page(gaps: &mut Vec<Buffer>) -> Result<(), ServerFailure> {
    let mut page = None;
    for _ in 0..=PAGE_BYTES / PLUG_BYTES {
        let plug = Buffer::new(PLUG_BYTES).map_err(failure)?;
        let at = plug.at / PAGE_BYTES as u64;
        gaps.push(plug);
        if *page.get_or_insert(at) != at {
            break;
        }
    }
    Ok(())
}

/// Says whether there is less between two allocations than between a tensor and the next in an arena.
fn are_neighbours(one: &Buffer, other: &Buffer) -> bool {
    let (low, high) = if one.at < other.at { (one, other) } else { (other, one) };
    high.at < low.at + (low.bytes + LEAST_GUARD_BYTES) as u64
}

/// Decides what the outputs of a slot hold before a launch: what was asked for; else NaN before the first launch,
/// which tells what was never written, and before later ones large numbers of either sign, since to some operations
/// a NaN is nothing. Nobody can foresee which.
fn drawn_poison(asked: Option<Poison>, n_launches: usize, rng: &mut Rng) -> Poison {
    match (asked, n_launches) {
        (Some(poison), _) => poison,
        (None, 0) => Poison::Nan,
        (None, _) => Poison::finite(rng.below(2) == 0, rng),
    }
}

/// Returns eight bytes of an output that is filled with poison.
fn poison_word(dtype: DType, poison: Poison) -> u64 {
    let width = 8 * dtype.size();
    (0..64 / width).fold(0, |word, lane| word | poison.bits(dtype) << (lane * width))
}

pub(super) fn load_kernel(
    plan: &SessionPlan,
    module: &[u8],
    smem_per_block: u32,
) -> Result<Work, ServerFailure> {
    let module = Module::load(module).map_err(failure)?;
    let mut functions = Vec::new();
    for launch in &plan.launches {
        let function = module.function(&launch.entry).map_err(failure)?;
        let taken = driver::parameter_sizes(function);
        if let Some(words) = mistaken_parameters(&launch.entry, &taken, &passed_sizes(plan)) {
            return Err(ServerFailure { kind: FailureKind::Refused, message: words });
        }
        if launch.smem > smem_per_block {
            let message = format!(
                "`{}` wants {} bytes of dynamic shared memory; a block of this device gets at most \
                 {smem_per_block}: let `constraints` say so, with SMEM_PER_BLOCK",
                launch.entry, launch.smem
            );
            return Err(ServerFailure { kind: FailureKind::Refused, message });
        }
        driver::allow_shared_memory(function, launch.smem).map_err(failure)?;
        driver::allow_clusters(function, launch.cluster.iter().product()).map_err(failure)?;
        functions.push(function);
    }
    Ok(Work::Kernel { _module: module, functions })
}

/// Returns the sizes of what [`Slots::arguments`] passes, in its order, each with what it is.
fn passed_sizes(plan: &SessionPlan) -> Vec<(usize, &'static str)> {
    let mut passed = vec![(size_of::<u64>(), "a pointer"); plan.tensors.len()];
    passed.extend(vec![(size_of::<i32>(), "an int"); plan.axes.len()]);
    passed.extend(plan.scalars.iter().map(|scalar| match scalar {
        ScalarWire::Single(_) => (size_of::<f32>(), "a float"),
        ScalarWire::Double(_) => (size_of::<f64>(), "a double"),
        ScalarWire::Long(_) => (size_of::<i64>(), "a long long"),
    }));
    passed.extend(vec![(size_of::<u64>(), "a pointer"); plan.scratch.len()]);
    passed.extend(vec![(size_of::<CUtensorMap>(), "a tensor map"); plan.maps.len()]);
    passed
}

/// Says how the parameters that an entry takes differ from those that it is passed. The driver copies as many bytes
/// as the entry declares, so one that is too large would be filled with whatever lies behind the argument in this
/// process's memory: what other launches are passed, and how many there are.
fn mistaken_parameters(
    entry: &str,
    taken: &[usize],
    passed: &[(usize, &'static str)],
) -> Option<String> {
    if taken.len() != passed.len() {
        return Some(format!(
            "`{entry}` takes {} parameters; the lab passes {}",
            taken.len(),
            passed.len()
        ));
    }
    let idx = (0..taken.len()).find(|idx| taken[*idx] != passed[*idx].0)?;
    let (size, what) = passed[idx];
    Some(format!(
        "parameter {} of `{entry}` has {} bytes; the lab passes {what}, which has {size}",
        idx + 1,
        taken[idx]
    ))
}

fn no_memory() -> ServerFailure {
    let message = "a session has no memory for what is asked of it".to_string();
    ServerFailure { kind: FailureKind::Broken, message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poison;

    #[test]
    fn a_parameter_of_another_size_than_the_argument_is_refused() {
        let passed = [(8, "a pointer"), (4, "an int"), (4, "a float")];
        assert_eq!(mistaken_parameters("rows", &[8, 4, 4], &passed), None);
        assert_eq!(
            mistaken_parameters("rows", &[8, 4], &passed).as_deref(),
            Some("`rows` takes 2 parameters; the lab passes 3")
        );
        assert_eq!(
            mistaken_parameters("rows", &[8, 32000, 4], &passed).as_deref(),
            Some("parameter 2 of `rows` has 32000 bytes; the lab passes an int, which has 4")
        );
    }

    #[test]
    fn outputs_hold_what_is_asked_for_or_nan_and_then_numbers_of_either_sign() {
        let mut rng = Rng::new(9);
        let asked = Poison::finite(true, &mut rng);
        assert_eq!(drawn_poison(Some(asked), 0, &mut rng), asked);
        assert_eq!(drawn_poison(Some(Poison::Nan), 5, &mut rng), Poison::Nan);
        assert_eq!(drawn_poison(None, 0, &mut rng), Poison::Nan);
        let later: Vec<Poison> = (0..32).map(|_| drawn_poison(None, 1, &mut rng)).collect();
        for dtype in [DType::F16, DType::Bf16, DType::F32, DType::F64] {
            let sign = 1 << (8 * dtype.size() - 1);
            let words: Vec<u64> = later.iter().map(|poison| poison_word(dtype, *poison)).collect();
            assert!(words.iter().any(|word| word & sign == 0));
            assert!(words.iter().any(|word| word & sign != 0));
            assert!(words.iter().collect::<std::collections::BTreeSet<_>>().len() > 24);
            // Every element of a word is the same.
            let bytes = words[0].to_le_bytes();
            assert!(bytes.chunks(dtype.size()).all(|element| *element == bytes[..dtype.size()]));
            let unwritten = poison_word(dtype, Poison::Nan).to_le_bytes();
            assert!(poison::is_poison(dtype, &unwritten[..dtype.size()]));
        }
    }

    #[test]
    fn whoever_is_watched_finds_inputs_and_outputs_in_either_order() {
        let input = |input| Item { owner: Owner::Input { place: 0, input }, bytes: 8 };
        let output = Item { owner: Owner::Output { place: 0, output: 0 }, bytes: 8 };
        let items = [input(0), input(1), output, Item { owner: Owner::Scratch(0), bytes: 8 }];
        let mut rng = Rng::new(3);
        let orders: Vec<Vec<Owner>> = (0..64)
            .map(|_| drawn_groups(&items, &mut rng).concat().iter().map(|it| it.owner).collect())
            .collect();
        for owner in items.map(|it| it.owner) {
            let at = |order: &Vec<Owner>| order.iter().position(|known| *known == owner);
            for place in 0..items.len() {
                assert!(orders.iter().any(|order| at(order) == Some(place)), "{owner:?} {place}");
            }
        }
        // They never mix: they are on different pages.
        let is_input = |owner: &Owner| matches!(owner, Owner::Input { .. });
        assert!(orders.iter().all(|order| is_input(&order[0]) == is_input(&order[1])));
    }

    #[test]
    fn allocations_with_less_than_a_guard_between_them_are_neighbours() {
        let check = |one: (u64, usize), other: (u64, usize), expected: bool| {
            // Not to be freed: there is no driver.
            let buffer = |(at, bytes)| std::mem::ManuallyDrop::new(Buffer { at, bytes });
            let (one, other) = (buffer(one), buffer(other));
            assert_eq!(are_neighbours(&one, &other), expected, "{one:?} {other:?}");
            assert_eq!(are_neighbours(&other, &one), expected, "{one:?} {other:?}");
        };
        let (start, page) = (0x7f00_0000_0000u64, PAGE_BYTES as u64);
        check((start, PAGE_BYTES), (start + page, 4), true);
        check((start, PAGE_BYTES), (start + 2 * page, 4), false);
        check((start, PAGE_BYTES - 4), (start + page, 4), true);
        check((start, PAGE_BYTES - LEAST_GUARD_BYTES), (start + page, 4), false);
        check((start, 512), (start + 512, 512), true);
    }
}
