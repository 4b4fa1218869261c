/// Paths in the cluster, and the little arithmetic on paths that commands need.
#pragma once

#include <string>

#include "common/base/status.h"

namespace kintsugi::cli {

/// kInvalidArgument unless the remote path is absolute.
Status check_remote(const std::string& path);
/// kInvalidArgument when the path ends in a name that the cluster gives a meaning: what is made there would be in the
/// way of snapshots, or of the trash.
Status check_new_name(const std::string& path);
/// "/a/b" and "c" make "/a/b/c".
std::string join(const std::string& directory, const std::string& name);
/// The last component without trailing slashes; empty for "/".
std::string base_name(const std::string& path);
/// The path without trailing slashes; "/" stays.
std::string trimmed(std::string path);

}  // namespace kintsugi::cli
