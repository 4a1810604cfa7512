//! Keys say when their uses are answered: once the disk has the record, or once the system has it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gabion_kms::audit::Class;
use gabion_kms::gate::{Peer, Principal};
use gabion_kms::model::Label;
use gabion_kms::operations::{Kms, NewKey};
use gabion_kms::service::{AuditAt, Call, KeyRef, Options, Service, SignItem};
use gabion_state::{Access, Disk, DiskFile, Identity, RealDisk};

use crate::verbs::{label, pure};

/// A disk that counts how often a file is synced.
struct Counting(Arc<AtomicUsize>);

struct File(Box<dyn DiskFile>, Arc<AtomicUsize>);

impl Disk for Counting {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(File(RealDisk.open(path, access)?, self.0.clone())))
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        RealDisk.make_folder(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        RealDisk.sync_folder(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename_new(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        RealDisk.identity(path)
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        RealDisk.canonical(path)
    }

    fn is_network(&self, path: &Path) -> io::Result<bool> {
        RealDisk.is_network(path)
    }
}

impl DiskFile for File {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.sync()
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.0.try_lock()
    }

    fn unlock(&self) -> io::Result<()> {
        self.0.unlock()
    }

    fn identity(&self) -> io::Result<Identity> {
        self.0.identity()
    }
}

#[test]
fn a_key_says_when_its_uses_are_answered() {
    for class in [Class::Written, Class::Durable] {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("audit");
        let synced = Arc::new(AtomicUsize::new(0));
        let disk: Arc<dyn Disk> = Arc::new(Counting(synced.clone()));
        let options = Options { class, ..Options::default() };
        let at = AuditAt::Disk(disk, &at);
        let service = Service::open(Kms::in_memory().unwrap(), &at, options).unwrap();
        let token = service.first_token(&Principal::new("me").unwrap()).unwrap().to_string();
        let who = service.authenticate(&token, &Peer::default()).unwrap();
        let call = Call::new(&who, "r");
        let tenant = label("default");
        let names: [Label; 2] = ["a", "b"].map(label);
        let keys = names.each_ref().map(|name| KeyRef { tenant: &tenant, name });
        for name in &names {
            let (algorithm, purpose) = ("ed25519".parse().unwrap(), label("transit"));
            let new = NewKey { tenant: tenant.clone(), purpose, name: name.clone(), algorithm };
            service.create(&call, &new).unwrap();
        }
        let syncs = |run: &dyn Fn()| {
            let before = synced.load(Ordering::Relaxed);
            run();
            synced.load(Ordering::Relaxed) - before
        };
        let sign = |key: &KeyRef<'_>| {
            syncs(&|| drop(service.sign(&call, key, None, pure(b"m")).unwrap())) > 0
        };
        let batch = || {
            let items = keys.map(|key| SignItem { key, version: None, message: pure(b"m") });
            syncs(&|| {
                let signed = service.sign_batch(&call, &items);
                assert!(signed.iter().all(Result::is_ok));
            }) > 0
        };
        let is_durable = class == Class::Durable;
        assert_eq!([sign(&keys[0]), sign(&keys[1]), batch()], [is_durable; 3]);
        service.set_class(&call, &keys[0], Some(Class::Durable)).unwrap();
        service.set_class(&call, &keys[1], Some(Class::Written)).unwrap();
        assert_eq!([sign(&keys[0]), sign(&keys[1]), batch()], [true, false, true]);
        for key in &keys {
            service.set_class(&call, key, None).unwrap();
        }
        assert_eq!([sign(&keys[0]), sign(&keys[1]), batch()], [is_durable; 3]);
    }
}
