/// The kernel's side of the FUSE protocol: <linux/fuse.h>, and what newer kernels have beyond Debian 12's copy of it
/// (7.38).
#pragma once

#include <cstddef>
#include <cstdint>

#include <linux/fuse.h>

namespace kintsugi::mount {

// Flags of INIT (7.38 and later).
inline constexpr uint64_t kCreateSuppGroup = 1ULL << 34;
inline constexpr uint64_t kDirectIoAllowMmap = 1ULL << 36;
inline constexpr uint64_t kNoExportSupport = 1ULL << 38;
inline constexpr uint64_t kHasResend = 1ULL << 39;

/// The type of an extension that carries struct { uint32_t count; uint32_t groups[]; }.
inline constexpr uint32_t kExtGroups = 32;

/// A notification without a body: the kernel sends again what it has no answer to, with kUniqueResend set in `unique`.
/// The answer carries `unique` as it came, with that bit.
inline constexpr int32_t kNotifyResend = 7;
inline constexpr uint64_t kUniqueResend = 1ULL << 63;

/// What we speak; the kernel may be older or newer.
inline constexpr uint32_t kProtocolMinor = 40;
/// The oldest that we serve: Linux 5.4.
inline constexpr uint32_t kOldestMinor = 31;

inline constexpr size_t kRequestOverhead = sizeof(fuse_in_header) + sizeof(fuse_write_in);

}  // namespace kintsugi::mount
