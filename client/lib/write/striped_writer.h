/// Writes the bytes of a source as stripes of one upload, one after the other.
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

/// Use once. The next stripe is allocated while one is written, and sealed ones finish in the background, so the
/// network does not idle between stripes. A stripe that loses too many chunks is written again from the source if that
/// can seek. All stripes but the last one are sealed by a call of their own.
class StripedWriter {
 public:
  using Progress = std::function<void(uint64_t bytes)>;

  /// `name` is for logs. `upload` and `source` outlive the writer.
  StripedWriter(Resources& resources, Context context, Upload& upload, Source& source, std::string name,
                Progress progress);

  /// Ok: every byte of the source is durable on chunkservers. Nothing runs in the background any more, nor in the
  /// upload.
  asio::awaitable<Status> run();

  uint64_t written() const { return written_; }
  /// The stripes as extents of the source, in order; without gaps.
  void add_extents(google::protobuf::RepeatedPtrField<proto::Extent>& extents) const;
  /// Hands over the stripes that whoever commits has to seal.
  void take_sealed(google::protobuf::RepeatedPtrField<proto::SealedStripe>& sealed);

 private:
  /// One stripe from allocation to seal.
  struct Stripe {
    uint64_t file_offset = 0;
    uint64_t length = 0;
    uint64_t reported = 0;  ///< bytes of the stripe that were reported to `progress`
    std::unique_ptr<StripeWriter> writer;
    std::optional<proto::SealedStripe> sealed;  ///< set only when the commit seals the stripe
    uint64_t stripe_id = 0;
    bool last = false;
  };

  asio::awaitable<Status> write_all();
  /// Begins a stripe of at most `bytes` after those that are there.
  Stripe& add_stripe(proto::AllocateStripeResponse allocation, uint64_t bytes);
  /// Reads the next batch of a stripe: empty at the end of the source.
  asio::awaitable<Result<RowBatch>> read_batch(Context context, uint64_t stripe_offset, uint64_t file_offset,
                                               uint64_t at_most);
  /// Writes the stripe from its first batch on, up to `at_most` bytes or the end of the source.
  asio::awaitable<Status> fill(Context context, Stripe& stripe, RowBatch batch, uint64_t at_most);
  void report_progress(Stripe& stripe, uint64_t written);
  /// Seals in the background; on failure writes the stripe again.
  asio::awaitable<void> finish(Stripe* stripe);
  asio::awaitable<Status> seal(Context context, Stripe& stripe);
  asio::awaitable<Status> write_again(Context context, Stripe& stripe);
  asio::awaitable<void> abort(Context context, Stripe& stripe);

  bool can_seek() const { return size_.has_value(); }
  /// True when the source has grown since its size was asked for.
  bool has_grown();

  Resources& resources_;
  const Context context_;
  Upload& upload_;
  Source& source_;
  const std::string name_;
  const Progress progress_;
  std::optional<uint64_t> size_;  ///< size of the source, as far as known
  uint64_t written_ = 0;          ///< total size of the stripes that were filled
  bool at_end_ = false;           ///< the source has ended

  std::deque<Stripe> stripes_;
  size_t finishing_ = 0;  ///< stripes that are being sealed in the background
  Status failure_;        ///< first failure of a background task
  runtime::Event changed_;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::client
