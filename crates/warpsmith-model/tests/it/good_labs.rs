//! Labs that must load: those of the repository and the one that `warpsmith new` writes.

use std::fs;
use std::path::{Path, PathBuf};

use warpsmith_model::lab::{
    LabFiles, Role, SchemaKind, candidate_id, parse_kernel, scaffold, schema,
};
use warpsmith_model::{Lab, Params, Value};

fn labs_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs")
}

/// Reads the files below a folder, by path relative to it.
fn read_files(folder: &Path, prefix: &str, files: &mut LabFiles) {
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("the folder can be read").path();
        let name = path.file_name().expect("a name").to_str().expect("plain names").to_string();
        if path.is_dir() {
            read_files(&path, &format!("{prefix}{name}/"), files);
        } else if let Ok(text) = fs::read_to_string(&path) {
            files.insert(format!("{prefix}{name}"), text);
        }
    }
}

fn read_lab(name: &str) -> LabFiles {
    let mut files = LabFiles::new();
    read_files(&labs_folder().join(name), "", &mut files);
    read_files(&labs_folder().join("include"), "../include/", &mut files);
    files
}

fn new_lab() -> LabFiles {
    scaffold("blend").expect("an identifier").into_iter().collect()
}

#[test]
fn every_lab_of_the_repository_loads() {
    let mut n_labs = 0;
    for entry in fs::read_dir(labs_folder()).expect("labs are there") {
        let name = entry.expect("readable").file_name().to_str().expect("plain").to_string();
        if !labs_folder().join(&name).join("lab.toml").exists() {
            continue;
        }
        let lab = Lab::parse(&read_lab(&name)).unwrap_or_else(|errors| panic!("{name}:\n{errors}"));
        for workload in lab.workloads.iter().chain(&lab.proofs) {
            let work = lab.work(workload).expect("the loader tried it");
            assert!(work.flops > 0.0 && work.bytes > 0.0, "{name} {}", workload.name);
            for tensor in &lab.tensors {
                assert!(tensor.extents(workload).is_ok(), "{name} {}", tensor.name);
            }
        }
        n_labs += 1;
    }
    assert!(n_labs >= 4, "only {n_labs} labs were found");
}

#[test]
fn a_lab_says_what_its_files_say() {
    let lab = Lab::parse(&read_lab("saxpy")).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(lab.name, "saxpy");
    assert_eq!(lab.axes, ["N"]);
    let tensors: Vec<(&str, Role)> =
        lab.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor.role)).collect();
    assert_eq!(tensors, [("x", Role::Input), ("y", Role::Input), ("z", Role::Output)]);
    assert_eq!(lab.arithmetic_dtype(&lab.workloads[0]), warpsmith_model::DType::F32);
    assert_eq!(lab.inputs[0].distributions.len(), 2);
    assert_eq!(lab.micro_workloads, ["n64k"]);
    assert_eq!(
        lab.headers.len(),
        read_lab("saxpy")
            .range("../include/".to_string()..)
            .take_while(|(path, _)| path.starts_with("../include/"))
            .filter(|(path, _)| path.ends_with(".h"))
            .count()
    );
    let workload = lab.workload("n64k").expect("it is there");
    assert_eq!(lab.work(workload).expect("defined").flops, 131_072.0);
    assert_eq!(lab.tensors[0].extents(workload), Ok(vec![65_536]));

    let kernel = lab.kernel("10_vector").expect("it is there");
    let tunables: Vec<&str> = kernel.tunables.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(tunables, ["VEC_BYTES", "UNROLL", "BLOCK"], "in the contract's order");
    assert_eq!(kernel.cartesian(), 24);
    assert_eq!(kernel.seed_params().get("UNROLL"), Some(&Value::Int(4)));
    assert_eq!(kernel.launches[0].chunk.text(), "1");
}

#[test]
fn a_new_lab_loads_and_has_its_name() {
    let lab = Lab::parse(&new_lab()).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(lab.name, "blend");
    assert_eq!(lab.kernels.len(), 2);
    assert!(lab.kernels.iter().all(|kernel| kernel.launches[0].entry == "blend"));
    for bad in ["", "two words", "9lives", "a-b", "../up", "min", "é"] {
        assert!(scaffold(bad).is_err(), "`{bad}`");
    }
}

#[test]
fn a_kernel_on_its_own_is_the_lab_s_kernel() {
    let lab = Lab::parse(&new_lab()).unwrap_or_else(|errors| panic!("{errors}"));
    for kernel in &lab.kernels {
        let again = parse_kernel(&lab, &kernel.name, &kernel.contract, &kernel.source)
            .unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(format!("{again:?}"), format!("{kernel:?}"));
    }
    assert!(parse_kernel(&lab, "../escape", &lab.kernels[0].contract, "").is_err());
}

#[test]
fn identity_follows_content_and_ignores_prose() {
    let files = new_lab();
    let lab = Lab::parse(&files).expect("valid");
    let changed = |path: &str, addition: &str| {
        let mut files = files.clone();
        files.entry(path.to_string()).or_default().push_str(addition);
        Lab::parse(&files).unwrap_or_else(|errors| panic!("{errors}")).id
    };
    assert_eq!(changed("README.md", "more prose"), lab.id);
    assert_ne!(changed("reference.c", "\n"), lab.id);
    assert_ne!(changed("kernels/10_vector.c", "\n"), lab.id);
    assert_ne!(changed("../include/new.h", "\n"), lab.id);
}

#[test]
fn a_shared_header_for_cuda_is_no_part_of_a_lab_for_the_cpu() {
    let mut files = new_lab();
    let lab = Lab::parse(&files).expect("valid");
    files.insert("../include/tile.cuh".to_string(), "// device code".to_string());
    let beside = Lab::parse(&files).expect("valid");
    assert_eq!(beside.id, lab.id);
    assert_eq!(beside.headers, lab.headers);
    files.insert("include/own.cuh".to_string(), "// its author's".to_string());
    let own = Lab::parse(&files).expect("valid");
    assert_ne!(own.id, lab.id);
    assert_eq!(own.headers.len(), lab.headers.len() + 1);
}

#[test]
fn a_candidate_is_its_source_parameters_headers_contract_and_compiler() {
    let files = new_lab();
    let lab = Lab::parse(&files).expect("valid");
    let kernel = lab.kernel("10_vector").expect("it is there");
    let id = |lab: &Lab, params: &Params, compiler: &str| {
        candidate_id(lab, lab.kernel("10_vector").expect("it is there"), params, compiler)
    };
    let params = kernel.seed_params();
    let base = id(&lab, &params, "gcc 12");
    assert_eq!(base, id(&lab, &params.clone(), "gcc 12"));
    assert_ne!(base, id(&lab, &params, "gcc 13"));
    let mut other_params = params.clone();
    other_params.0.insert("ROWS".to_string(), Value::Int(16));
    assert_ne!(base, id(&lab, &other_params, "gcc 12"));
    for path in ["kernels/10_vector.c", "kernels/10_vector.toml", "include/x.h"] {
        let mut files = files.clone();
        files.entry(path.to_string()).or_default().push('\n');
        assert_ne!(base, id(&Lab::parse(&files).expect("valid"), &params, "gcc 12"), "{path}");
    }
    let mut files = files;
    files.entry("kernels/00_naive.c".to_string()).or_default().push('\n');
    let unrelated = Lab::parse(&files).expect("valid");
    assert_eq!(base, id(&unrelated, &params, "gcc 12"), "another kernel's file does not count");
}

#[test]
fn a_lab_s_own_header_wins_over_a_shared_one() {
    let mut files = new_lab();
    files.insert("../include/a.h".to_string(), "shared".to_string());
    files.insert("../include/b.h".to_string(), "shared".to_string());
    files.insert("include/a.h".to_string(), "own".to_string());
    let lab = Lab::parse(&files).expect("valid");
    let header = |name: &str, text: &str| (name.to_string(), text.to_string());
    assert_eq!(lab.headers, [header("a.h", "own"), header("b.h", "shared")]);
}

#[test]
fn schemas_name_the_keys_that_the_loader_knows() {
    for (kind, keys) in [
        (SchemaKind::Lab, ["axes", "tensor", "workload", "tolerance"]),
        (SchemaKind::Contract, ["launch", "tunables", "search", "compiler"]),
        (SchemaKind::Baseline, ["script", "packages", "size_mb", "requires"]),
    ] {
        let schema = schema(kind);
        for key in keys {
            assert!(schema["properties"].get(key).is_some(), "{kind:?} has no {key}: {schema:#}");
        }
        assert_eq!(schema["additionalProperties"], false);
    }
}

#[test]
fn tolerances_that_are_wide_are_doubted() {
    for name in ["saxpy", "rmsnorm", "gemm", "attention"] {
        let mut for_gpus = LabFiles::new();
        read_files(&labs_folder().join(name).join("cuda"), "", &mut for_gpus);
        read_files(&labs_folder().join(name), "../", &mut for_gpus);
        read_files(&labs_folder().join("include"), "../../include/", &mut for_gpus);
        for files in [read_lab(name), for_gpus] {
            let lab = Lab::parse(&files).expect("a good lab");
            assert_eq!(lab.tolerance_doubt(), None, "{name}");
        }
    }
    let mut lab = Lab::parse(&read_lab("saxpy")).expect("a good lab");
    lab.tolerance.norm_eps = 1e6;
    let doubt = lab.tolerance_doubt().expect("wide");
    assert!(doubt.contains("a whole answer be wrong by 12 %"), "{doubt}");
    assert!(!doubt.contains("element"), "{doubt}");
    lab.tolerance.norm_eps = 1e5;
    let doubt = lab.tolerance_doubt().expect("wide");
    assert!(doubt.contains("a whole answer be wrong by 1.2 %"), "{doubt}");
    // Elements that are far off were once passed over in silence.
    lab.tolerance.norm_eps = 2.0;
    lab.tolerance.element_eps = 1e6;
    let doubt = lab.tolerance_doubt().expect("wide");
    assert!(doubt.contains("lets one element be wrong by 12 %"), "{doubt}");
    lab.tolerance.element_eps = 1e300;
    let doubt = lab.tolerance_doubt().expect("wide");
    assert!(doubt.contains("wrong by 1.2e295 %"), "{doubt}");
}

/// A kernel that relies on the size of its inputs passed on the GPU alone: the labs for it lacked the distributions
/// that were added for the CPU. Those of `gemm` differ, since half precision holds no mixed scales in both operands.
#[test]
fn labs_for_gpus_have_every_distribution_of_their_labs_for_processors() {
    let inputs = |path: &str| -> Vec<(String, toml::Value)> {
        let path = labs_folder().join(path);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let manifest: toml::Table = text.parse().expect("TOML");
        let inputs = manifest["inputs"].as_array().expect("distributions");
        let mut named = Vec::new();
        for one in inputs {
            let mut one = one.as_table().expect("a table").clone();
            // What is accurate enough depends on the types.
            one.remove("tolerance_scale");
            let name = one.remove("name").expect("a name").as_str().expect("text").to_string();
            named.push((name, toml::Value::Table(one)));
        }
        named
    };
    for lab in ["saxpy", "rmsnorm", "attention"] {
        let on_gpus = inputs(&format!("{lab}/cuda/lab.toml"));
        for wanted in inputs(&format!("{lab}/lab.toml")) {
            assert!(on_gpus.contains(&wanted), "{lab}: {wanted:?} is not among {on_gpus:?}");
        }
    }
}
