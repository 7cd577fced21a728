//! Checksums (CRC-32C) and hashes (XXH3) used across all formats.
//!
//! A stored checksum also binds *where the bytes belong*: it is the CRC of the bytes, exclusive-or
//! a mix of the file's salt and the offset. A block that is intact but stands in another file
//! or at another offset therefore fails its check, and the CRC's guarantee about burst errors
//! inside the block is untouched.

use xxhash_rust::xxh3::xxh3_64;

/// CRC-32C (Castagnoli) of `bytes`.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// Binds a checksum to a file (by its random `salt`) and an offset in it.
#[inline]
pub fn bind(crc: u32, salt: u64, offset_bytes: u64) -> u32 {
    let mixed = mix64(salt ^ mix64(offset_bytes.wrapping_add(0x9e37_79b9_7f4a_7c15)));
    crc ^ (mixed as u32) ^ ((mixed >> 32) as u32)
}

/// A 64-bit hash of `bytes`; stable across versions, since filters on disk depend on it.
#[inline]
pub fn hash64(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// A bijective mixer (the finaliser of splitmix64).
#[inline]
pub fn mix64(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32c_matches_the_published_check_value() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(b""), 0);
    }

    #[test]
    fn binding_tells_files_and_offsets_apart() {
        let crc = crc32c(b"block");
        assert_ne!(bind(crc, 1, 0), bind(crc, 2, 0));
        assert_ne!(bind(crc, 1, 0), bind(crc, 1, 4096));
        assert_eq!(bind(bind(crc, 7, 9), 7, 9), crc, "binding is its own inverse");
    }

    #[test]
    fn hash_is_stable() {
        assert_eq!(hash64(b""), 0x2d06_8005_38d3_94c2);
    }
}
