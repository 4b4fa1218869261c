/// The erasure codes that directories hand down to the files written below them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/proto/meta.pb.h"
#include "common/runtime/clock.h"
#include "metaserver/namespace/lookup.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

/// A directory may have a policy. A new file gets that of the nearest directory above it which has one; one that is
/// written keeps what it was written with. Paths and errors are as those of Namespace.
class DirectoryPolicies {
 public:
  /// The clock outlives it. `fallback` counts where no directory up to the root has a policy.
  DirectoryPolicies(const runtime::Clock& clock, std::string fallback)
      : clock_(clock), fallback_(std::move(fallback)) {}

  /// Sets the policy of new files below a directory; an empty one inherits.
  /// REQUIRES: `policy` is empty or a policy's one name.
  Status set(Transaction& transaction, std::string_view path, const std::string& policy);
  /// The code of a file; what new files in a directory get.
  Result<proto::GetPolicyResponse> of(const Reader& reader, std::string_view path) const;
  /// The policy of a file that is going to be made (or replaced) at this path.
  Result<proto::GetPolicyResponse> for_new_file(const Reader& reader, std::string_view path) const;
  /// The policy of a new file in this directory.
  std::string of_directory(const Reader& reader, InodeId directory) const;
  /// The policy of files that find none below the root.
  std::string default_policy(const Reader& reader) const;

 private:
  proto::GetPolicyResponse nearest(const Reader& reader, const Path& path,
                                   const std::vector<InodeId>& trail) const;

  const runtime::Clock& clock_;
  const std::string fallback_;
};

}  // namespace kintsugi::metaserver
