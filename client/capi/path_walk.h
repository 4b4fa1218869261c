/// From a path to what is there, component by component, as a kernel does it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <boost/asio/awaitable.hpp>

#include "client/lib/leases/inode_calls.h"
#include "common/proto/inode.pb.h"

namespace kintsugi::capi {

inline constexpr int kMaxSymlinks = 40;

/// Where a path leads.
struct Place {
  /// Directory of the last name; 0: the path has no last name, like "/", "." and "..".
  uint64_t parent = 0;
  std::string name;
  /// What is there. None: nothing, or it was not asked for.
  std::optional<proto::Attributes> found;
  bool ends_with_slash = false;
};

enum class LastName {
  kFollow,        ///< a symbolic link at the end is followed
  kDoNotFollow,   ///< the last name is followed only if a "/" comes after it
  kDoNotResolve,  ///< what the last name refers to is not looked up
};

/// The metaserver checks that the caller may search the directories on the way. It is no error that nothing has the
/// last name, but kNotFound when one before it does not exist; kNotDirectory, kAccessDenied, kNameTooLong,
/// kSymlinkLoop.
asio::awaitable<Result<Place>> walk(Context context, client::InodeCalls& calls, proto::Caller caller,
                                    std::string path, LastName last_name);

}  // namespace kintsugi::capi
