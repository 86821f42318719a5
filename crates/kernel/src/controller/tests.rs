use super::*;

#[test]
fn an_unknown_controller_or_parameter_is_a_wrong_call_that_lists_the_known() {
    let error = acquire("lai", &[]).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(
        error.to_string().contains("pilot, reno, lia") && error.to_string().contains("cubic"),
        "{error}"
    );
    let error = acquire("reno", &[("beta", 1)]).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    let error = acquire("cubic", &[("beta", 1)]).unwrap_err();
    assert_eq!(error.exit_code(), 2);
}

#[test]
fn every_controller_of_the_registry_has_an_object_and_a_name_the_kernel_takes() {
    for controller in mp_controllers::all() {
        let bytes = object::bytes(controller.name).expect(controller.name);
        let name = object::kernel_name(
            controller.name,
            bytes,
            &controller.connection().parameters,
            false,
            0,
        );
        assert!(
            name.len() <= 15 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'),
            "{name}"
        );
        let mut other = controller.connection().parameters;
        other[0] += 1;
        assert_ne!(
            name,
            object::kernel_name(controller.name, bytes, &other, false, 0)
        );
    }
}
