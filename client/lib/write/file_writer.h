/// Writes one whole file: stripe after stripe, then one atomic commit.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "client/lib/io.h"
#include "client/lib/resources.h"
#include "client/lib/write/stripe_writer.h"
#include "client/lib/write/upload.h"
#include "common/proto/meta.pb.h"

namespace kintsugi::client {

struct WriteOptions {
  uint32_t mode = 0644;
  uint32_t uid = 0;
  uint32_t gid = 0;
  int64_t modified_ns = 0;  ///< since 1970; 0 = now
  bool replace = false;     ///< else kAlreadyExists when the path exists
  std::string policy = {};  ///< overrides the directory's
  std::function<void(uint64_t bytes)> progress =
      {};  ///< called with each portion that was handed to the servers
};

/// Use once: `run` writes the file and returns when it is durable. Whatever fails or is interrupted leaves what was at
/// the path before.
///
/// The next stripe is allocated while one is written, and sealed ones finish in the background, so the network does not
/// idle between stripes. A stripe that loses too many chunks is written again from the source if that can seek. A file
/// of at most one cell goes to a stripe with k = 1: as many copies as survive what its policy survives, which is what
/// parity of a single cell costs as well, and any one of them can be read.
class FileWriter {
 public:
  FileWriter(Resources& resources, Context context, std::string path, Source& source, WriteOptions options);

  /// Ok: the file is durable, with these attributes.
  asio::awaitable<Status> run(proto::Attributes& attributes);

 private:
  /// One stripe from allocation to seal.
  struct Stripe {
    uint64_t file_offset = 0;
    uint64_t length = 0;
    uint64_t reported = 0;  ///< bytes of it that `progress` was told of
    std::unique_ptr<StripeWriter> writer;
    std::optional<proto::SealedStripe> sealed;  ///< kept only when the commit seals it
    uint64_t stripe_id = 0;
    bool last = false;
  };

  asio::awaitable<Status> write_all();
  /// Begins a stripe of at most `bytes` after those that are there.
  Stripe& add_stripe(proto::AllocateStripeResponse allocation, uint64_t bytes);
  /// Reads the next batch of a stripe: empty at the end of the source.
  asio::awaitable<Result<RowBatch>> read_batch(uint64_t stripe_offset, uint64_t file_offset,
                                               uint64_t at_most);
  /// Writes the stripe from its first batch on, up to `at_most` bytes or the end of the source.
  asio::awaitable<Status> fill(Stripe& stripe, RowBatch batch, uint64_t at_most);
  void report_progress(Stripe& stripe, uint64_t written);
  /// Seals in the background; on failure writes the stripe again.
  asio::awaitable<void> finish(Stripe* stripe);
  asio::awaitable<Status> seal(Stripe& stripe);
  asio::awaitable<Status> write_again(Stripe& stripe);
  asio::awaitable<void> abort(Stripe& stripe);
  asio::awaitable<Status> commit(proto::Attributes& attributes);

  bool can_seek() const { return size_.has_value(); }

  Resources& resources_;
  Context context_;
  const std::string path_;
  Source& source_;
  const WriteOptions options_;
  const std::optional<uint64_t> size_;
  uint64_t written_ = 0;  ///< bytes of the stripes that were filled
  bool at_end_ = false;   ///< of the source

  Upload upload_;
  std::deque<Stripe> stripes_;
  size_t finishing_ = 0;  ///< stripes that are sealed in the background
  Status failure_;        ///< the first of a background task
  runtime::Event changed_;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::client
