//! A disk that is full.

use std::process::Command;

use serde_json::json;

use crate::server::{post, token, Server};
use crate::small::Small;

#[test]
fn a_full_disk_is_a_clean_refusal() {
    let data = tempfile::tempdir().unwrap();
    let Some(_small) = Small::mount(data.path()) else {
        return mp_testing::skip("no small file system can be mounted (that takes root)");
    };
    let token = token(data.path(), "phone");
    let mut server = Server::start(data.path(), &token, "");
    let mut acknowledged = 0;
    let (status, said) = loop {
        let (status, said) = server.report(acknowledged..acknowledged + 64).unwrap();
        if status != 200 {
            break (status, said);
        }
        acknowledged += 64;
        assert!(acknowledged < 200_000, "4 MB hold no 200,000 outcomes");
    };
    assert_eq!(status, 507, "{said}");
    assert!(
        said["error"].as_str().unwrap().contains("is full"),
        "{said}"
    );
    let asked = post(
        server.address,
        &token,
        "/v1/choose",
        &json!({"location": "cafe"}),
    );
    assert_eq!(asked.unwrap().0, 200, "choices go on");
    assert!(server.child.try_wait().unwrap().is_none(), "it lives");
    // Room again: more of it, for the log of writes is not given back before it has been moved.
    let mut remount = Command::new("mount");
    remount.args(["-o", "remount,size=16m"]).arg(data.path());
    assert!(remount.status().unwrap().success());
    let (status, receipt) = server.report(0..64).unwrap();
    assert_eq!((status, &receipt["duplicates"]), (200, &json!(64)));
    let (status, receipt) = server.report(acknowledged..acknowledged + 64).unwrap();
    assert_eq!((status, &receipt["stored"]), (200, &json!(64)));
    assert_eq!(server.end(), 0);
}
