//! Structs that grow at their end from version to version.

use zerocopy::FromBytes;

/// Zeros where the other side knows less; what it knows beyond is left out.
pub fn prefix<T: FromBytes>(bytes: &[u8]) -> T {
    let mut whole = vec![0; size_of::<T>()];
    let known = bytes.len().min(whole.len());
    whole[..known].copy_from_slice(&bytes[..known]);
    T::read_from_bytes(&whole).expect("it is of this size")
}

#[cfg(test)]
#[test]
fn a_struct_of_another_version_is_read_as_far_as_it_goes() {
    assert_eq!(prefix::<[u16; 2]>(&[1, 0, 2]), [1, 2]);
    assert_eq!(prefix::<[u16; 2]>(&[1, 0, 2, 0, 3, 0]), [1, 2]);
    assert_eq!(prefix::<[u16; 2]>(&[]), [0, 0]);
}
