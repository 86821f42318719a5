//! What every header promises: its opening comment, its settings, and that it compiles for BPF.

use std::path::Path;
use std::process::Command;

use mp_controllers::{all, Kind, DIR};

fn header(controller: &mp_controllers::Controller) -> String {
    std::fs::read_to_string(Path::new(DIR).join(controller.header() + ".h")).unwrap()
}

#[test]
fn names_fit_the_kernel_and_are_unique() {
    for (k, controller) in all().iter().enumerate() {
        // 15 characters with the hash that the kernel build appends
        assert!(controller.name.len() <= 10, "{}", controller.name);
        assert!(
            all()[..k].iter().all(|other| other.name != controller.name),
            "{} twice",
            controller.name
        );
    }
}

#[test]
fn headers_state_their_settings_as_the_registry_does() {
    for controller in all() {
        let text = header(controller).replace("\n *", "");
        let words: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for (k, parameter) in controller.parameters.iter().enumerate() {
            let line = format!(
                "{k} {}, {}, default {}",
                parameter.name, parameter.unit, parameter.default
            );
            assert!(
                words.contains(&line),
                "{}.h does not say \"{line}\"",
                controller.header()
            );
        }
        assert_eq!(
            controller.parameters.is_empty(),
            words.contains("No parameters."),
            "{}",
            controller.name
        );
    }
}

#[test]
fn headers_name_the_parameter_that_schedulers_write_as_the_registry_does() {
    for controller in all() {
        let text = header(controller);
        let mut lines = text.lines();
        let target = lines.find_map(|line| line.strip_prefix("#define MP_TARGET "));
        let scheduled = controller.scheduled_parameter.map(|index| {
            let name = format!(
                "{}_{}",
                controller.header(),
                controller.parameters[index].name
            );
            name.to_uppercase()
        });
        assert_eq!(target, scheduled.as_deref(), "{}", controller.name);
    }
}

#[test]
fn what_a_header_defines_holds_for_it_alone() {
    for controller in all() {
        let text = header(controller);
        let asked = text
            .lines()
            .find_map(|line| line.strip_prefix("#define MP_SEND_BUFFER_WINDOWS "))
            .map_or(2, |windows| windows.trim().parse().unwrap());
        assert_eq!(
            controller.send_buffer_windows(),
            asked,
            "{}",
            controller.name
        );
    }
}

#[test]
fn headers_compile_for_bpf() {
    for controller in all() {
        let name = controller.header();
        let hook = if controller.kind == Kind::Window {
            "on_ack(c, i, ack)"
        } else {
            "on_interval(c, i, ack->now_us)"
        };
        let source = format!(
            "typedef unsigned long long __u64; typedef long long __s64; typedef unsigned int __u32;\n\
             #include \"{name}.h\"\n\
             void hooks(struct mp_connection *c, mp_u32 i, const struct mp_ack *ack)\n\
             {{\n{name}_init(c, i, 0); {name}_on_rtt(c, i, 0); {name}_{hook}; {name}_on_loss(c, i, 0);\n\
             {name}_on_undo(c, i); {name}_on_close(c, i);\n}}\n"
        );
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hooks.c");
        std::fs::write(&file, source).unwrap();
        let output = Command::new("clang")
            .args([
                "-target", "bpf", "-O2", "-g", "-mcpu=v3", "-Wall", "-Wextra", "-Werror", "-I",
                DIR, "-c",
            ])
            .arg(&file)
            .arg("-o")
            .arg(folder.path().join("hooks.o"))
            .output()
            .expect("clang is needed to build for BPF");
        assert!(
            output.status.success(),
            "{name}.h: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
