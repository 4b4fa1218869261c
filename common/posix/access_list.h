/// Who may do what with a file: mode bits and POSIX access lists, as Linux evaluates them (acl(5)). Pure rules, for
/// whoever has to judge: the metaserver, and the C library where a kernel would.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace kintsugi::proto {
class Caller;
}

namespace kintsugi::posix {

inline constexpr uint32_t kMayRead = 4, kMayWrite = 2, kMayExecute = 1;
inline constexpr std::string_view kAccessList = "system.posix_acl_access",
                                  kDefaultList = "system.posix_acl_default";

/// For whom something is done.
struct Caller {
  uint32_t uid = 0, gid = 0;
  std::vector<uint32_t> groups;

  static Caller root() { return {}; }
  static Caller from(const proto::Caller& caller);
  bool is_root() const { return uid == 0; }
  bool in_group(uint32_t group) const;
};

/// An access list in the form in which it is kept as an extended attribute (that of the kernel).
struct AccessList {
  enum Tag : uint16_t { kOwner = 1, kUser = 2, kOwningGroup = 4, kGroup = 8, kMask = 16, kOther = 32 };
  struct Item {
    uint16_t tag = 0, permissions = 0;
    uint32_t id = 0;
  };
  std::vector<Item> items;

  /// kInvalidArgument.
  static Result<AccessList> parse(std::string_view bytes);
  std::string serialise() const;
  /// Says no more than nine mode bits can.
  bool is_minimal() const;
  uint32_t mode() const;  ///< the nine permission bits that the list is equivalent to
  void apply_mode(uint32_t mode);
  /// What it grants to a caller who is neither the owner nor root.
  bool grants(const Caller& caller, uint32_t owning_group, uint32_t wanted) const;
};

/// What an inode has of its own to judge by.
struct Permissions {
  uint32_t owner = 0, group = 0, mode = 0;
  bool is_directory = false;

  /// The access list matters, if there is one: else mode bits decide alone.
  bool ask_the_list(const Caller& caller) const;
  /// The caller may do all of `wanted` (kMayRead…). `list`: the value of kAccessList, if there is one. One that is
  /// none is passed over.
  bool allow(const Caller& caller, uint32_t wanted, const std::optional<std::string>& list) const;
};

}  // namespace kintsugi::posix
