/// Writes one whole file: stripe after stripe, then one atomic commit.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/lib/core.h"
#include "client/lib/io.h"
#include "client/lib/write/stripe_writer.h"
#include "common/proto/meta.pb.h"

namespace kintsugi::client {

struct WriteOptions {
  WriteOptions() {}  // not an aggregate: GCC 12 destroys aggregate temporaries in co_await expressions twice
  uint32_t mode = 0644;
  uint32_t uid = 0;
  uint32_t gid = 0;
  int64_t modified_ns = 0;                       ///< since 1970; 0 = now
  bool replace = false;                          ///< else kAlreadyExists when the path exists
  std::string policy;                            ///< overrides the directory's
  std::function<void(uint64_t bytes)> progress;  ///< called with each portion that was handed to the servers
};

/// Use once: `run` writes the file and returns when it is durable. Whatever fails or is interrupted leaves
/// what was at the path before.
///
/// The next stripe is allocated while one is written, and sealed ones finish in the background, so the
/// network does not idle between stripes. A stripe that loses too many chunks is written again from the
/// source if that can seek. A file of at most one cell goes to a stripe with k = 1: as many copies as
/// survive what its policy survives, which is what parity of a single cell costs as well, and any one of them
/// can be read.
class FileWriter {
 public:
  FileWriter(Core& core, Context context, std::string path, Source& source, WriteOptions options);

  asio::awaitable<Result<proto::Attributes>> run();

 private:
  /// One stripe from allocation to seal.
  struct Stripe {
    uint64_t file_offset = 0;
    uint64_t length = 0;
    std::unique_ptr<StripeWriter> writer;
    std::optional<proto::SealedStripe> sealed;  // kept only when the commit seals it
    uint64_t stripe_id = 0;
    bool last = false;
  };

  asio::awaitable<Status> write_all();
  asio::awaitable<Status> choose_policy();
  asio::awaitable<void> allocate_next();
  asio::awaitable<Result<proto::AllocateStripeResponse>> allocate();
  asio::awaitable<Result<proto::AllocateStripeResponse>> take_allocation();
  /// Reads the next batch of a stripe: empty at the end of the source.
  asio::awaitable<Result<RowBatch>> read_batch(uint64_t stripe_offset, uint64_t file_offset,
                                               uint64_t at_most);
  asio::awaitable<Status> fill(Stripe& stripe, RowBatch first, uint64_t stripe_bytes);
  /// Seals in the background; on failure writes the stripe again.
  asio::awaitable<void> finish(Stripe* stripe);
  asio::awaitable<Status> seal(Stripe& stripe);
  asio::awaitable<Status> write_again(Stripe& stripe);
  asio::awaitable<Result<proto::Attributes>> commit();
  asio::awaitable<void> abandon();
  void note_failures(const StripeWriter& writer);

  bool can_seek() const { return size_.has_value(); }
  uint64_t stripe_bytes() const;

  Core& core_;
  Context context_;
  std::string path_;
  Source& source_;
  WriteOptions options_;
  std::optional<uint64_t> size_;
  uint64_t written_ = 0;
  bool at_end_ = false;

  std::optional<erasure::Policy> policy_;
  std::string file_policy_;
  uint64_t max_chunk_bytes_ = 0;
  uint64_t upload_id_ = 0;
  std::vector<uint64_t> exclude_;
  bool allocating_ = false;
  std::optional<Result<proto::AllocateStripeResponse>> allocated_;

  std::deque<Stripe> stripes_;
  size_t finishing_ = 0;
  Status failure_;  // of a background task
  runtime::Event changed_;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::client
