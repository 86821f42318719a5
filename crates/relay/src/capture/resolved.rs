//! systemd-resolved asks the servers of a link over that link, whatever the routes are. It is told that the TUN's resolver has all
//! names (D-Bus interface `org.freedesktop.resolve1.Manager`), for as long as the relay answers; it forgets that with the TUN.

use std::net::IpAddr;
use std::time::Duration;

use nix::libc::{AF_INET, AF_INET6};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use zbus::fdo::DBusProxy;
use zbus::Connection;

const SERVICE: &str = "org.freedesktop.resolve1";
const OBJECT: &str = "/org/freedesktop/resolve1";
const MANAGER: &str = "org.freedesktop.resolve1.Manager";
/// For all answers of one change.
const PATIENCE: Duration = Duration::from_secs(5);
/// The bus, or the service, may come later.
const ABSENT: Duration = Duration::from_secs(30);

/// Tells it in the background, until dropped.
pub struct Resolved {
    wanted: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Resolved {
    /// `link`: index of the TUN, `resolver`: an address behind it.
    pub fn watch(link: u32, resolver: IpAddr) -> Resolved {
        let (wanted, changes) = watch::channel(false);
        let task = tokio::spawn(follow(link as i32, resolver, changes));
        Resolved { wanted, task }
    }

    /// Whether queries are to go to the resolver.
    pub fn set(&self, wanted: bool) {
        self.wanted
            .send_if_modified(|was| std::mem::replace(was, wanted) != wanted);
    }
}

impl Drop for Resolved {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(link: i32, resolver: IpAddr, mut wanted: watch::Receiver<bool>) {
    let mut told = false;
    loop {
        let now = *wanted.borrow_and_update();
        if now != told {
            let answered = timeout(PATIENCE, tell(link, resolver, now)).await;
            if let Ok(Ok(())) = answered {
                told = now;
            }
        }
        tokio::select! {
            changed = wanted.changed() => if changed.is_err() {
                return;
            },
            () = sleep(ABSENT), if told != now => {}
        }
    }
}

async fn tell(link: i32, resolver: IpAddr, wanted: bool) -> zbus::Result<()> {
    let bus = Connection::system().await?;
    // A call to a service that is not there would start it.
    let names = DBusProxy::new(&bus).await?;
    if !names.name_has_owner(SERVICE.try_into()?).await? {
        return Err(zbus::Error::Failure("no systemd-resolved".into()));
    }
    let manager = zbus::Proxy::new(&bus, SERVICE, OBJECT, MANAGER).await?;
    if !wanted {
        return manager.call("RevertLink", &(link,)).await;
    }
    let (family, octets) = match resolver {
        IpAddr::V4(v4) => (AF_INET, v4.octets().to_vec()),
        IpAddr::V6(v6) => (AF_INET6, v6.octets().to_vec()),
    };
    let _: () = manager
        .call("SetLinkDNS", &(link, vec![(family, octets)]))
        .await?;
    // The root, for routing only: all names that no other link has a longer domain of.
    manager
        .call("SetLinkDomains", &(link, vec![(".", true)]))
        .await
}
