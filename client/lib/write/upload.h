/// One upload's conversation with the metaserver: policy, allocations of stripes, seals, commit, abandonment.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/lib/resources.h"
#include "client/lib/which_file.h"
#include "common/proto/meta.pb.h"
#include "common/runtime/context.h"
#include "common/runtime/task_group.h"
#include "erasure/policy.h"

namespace kintsugi::client {

/// Its id comes with the first allocation. REQUIRES, before it is destroyed: join().
class Upload {
 public:
  /// `policy` overrides the directory's, unless it is empty. A file whose size is known and at most a cell gets
  /// copies: see FileWriter.
  Upload(Resources& resources, WhichFile file, std::string policy, std::optional<uint64_t> file_bytes)
      : resources_(resources),
        file_(std::move(file)),
        file_bytes_(file_bytes.value_or(0)),
        file_policy_(policy),
        stripe_policy_(std::move(policy)),
        tasks_(resources.runtime),
        keeper_(resources.runtime) {}

  /// Allocates a stripe, if possible on servers that did not fail lately. All stripes of an upload have one policy.
  asio::awaitable<Status> allocate(Context context, proto::AllocateStripeResponse& allocation);
  /// Begins to allocate the stripe that the next take_allocation() hands over.
  void allocate_ahead(Context context);
  /// The stripe that was allocated ahead, or else a new one.
  asio::awaitable<Status> take_allocation(Context context, proto::AllocateStripeResponse& allocation);
  /// No stripe is to be allocated on this server any more.
  void exclude(uint64_t server);

  /// Hands a sealed stripe over before the commit. All but the last stripe are, so that a commit stays small.
  asio::awaitable<Status> seal(Context context, proto::SealedStripe sealed);
  /// Makes the file visible at its path: `request` has everything but the path, the policy and the upload's id.
  asio::awaitable<Status> commit(Context context, proto::CommitFileRequest request,
                                 proto::Attributes& attributes);
  /// Waits for an allocation that is under way. The metaserver is told no longer that the upload continues.
  asio::awaitable<void> join();
  /// Gives the upload up. It is only a courtesy: the metaserver collects uploads that nobody finishes.
  asio::awaitable<void> abort(Context context);

  const WhichFile& file() const { return file_; }
  /// 0 before the first allocation.
  uint64_t id() const { return upload_id_; }
  /// The policy of the stripes, and the user bytes that one holds. REQUIRES: a stripe was allocated.
  const erasure::Policy& policy() const { return *policy_; }
  uint64_t max_stripe_bytes() const { return max_stripe_bytes_; }

 private:
  struct Ahead {
    Status status;
    proto::AllocateStripeResponse allocation;
  };

  asio::awaitable<void> run_ahead(Context context);
  /// Tells the metaserver every few seconds that this client is there. Without that it gives the upload up.
  asio::awaitable<void> keep_alive();
  Status adopt(const proto::AllocateStripeResponse& allocation);

  Resources& resources_;
  const WhichFile file_;
  const uint64_t file_bytes_;  ///< 0: unknown, or an empty file
  std::string file_policy_;    ///< policy of the file; empty: the directory's policy
  std::string stripe_policy_;  ///< policy of its stripes: the file's policy, or copies
  std::optional<erasure::Policy> policy_;
  uint64_t max_stripe_bytes_ = 0;
  uint64_t upload_id_ = 0;
  std::vector<uint64_t> excluded_;
  std::optional<Ahead> ahead_;
  uint64_t ahead_span_ = 0;    ///< the region of the task that allocates ahead
  runtime::TaskGroup tasks_;   ///< runs the allocation ahead
  runtime::TaskGroup keeper_;  ///< runs keep_alive()
};

}  // namespace kintsugi::client
