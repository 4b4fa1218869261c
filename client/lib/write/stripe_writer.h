/// Writes one stripe: cells and parity to k+m servers at once, then the seal.
#pragma once

#include <memory>
#include <vector>

#include "client/lib/resources.h"
#include "client/lib/write/chunk_sender.h"
#include "client/lib/write/row_batch.h"
#include "client/lib/write/stripe_allocation.h"
#include "common/proto/meta.pb.h"
#include "common/runtime/context.h"
#include "erasure/code.h"
#include "erasure/policy.h"
#include "monitoring/sight/module.h"

namespace kintsugi::client {

/// REQUIRES, before it is destroyed: `seal` or `abort` has returned (asserted).
///
/// Chunks may fail after their first byte as long as the stripe survives one more loss, whichever it is: they are
/// recorded as missing, and the metaserver has them repaired at once. With a policy that survives but one loss from the
/// start none may: there would be no redundancy left to answer for.
///
/// A server that keeps its sender waiting much longer than any other did is given up, as long as the stripe can do
/// without it; when more servers are silent than that, it is the network, and the streams' own limit decides. Chunks
/// that hold no byte are on no server.
class StripeWriter {
 public:
  /// Begins to connect to the servers, which reserve room for `max_bytes` user bytes; no more will be written.
  StripeWriter(Resources& resources, Context context, erasure::Policy policy,
               proto::AllocateStripeResponse allocation, uint64_t max_bytes);
  ~StripeWriter();

  /// Computes parity and hands the batch to the senders; waits while the slowest one's queue is full. kUnavailable once
  /// too many chunks failed.
  asio::awaitable<Status> write(const Context& context, RowBatch batch);

  /// Every chunk that counts is durable on return. kUnavailable, naming the servers, when too many failed.
  asio::awaitable<Status> seal(const Context& context, proto::SealedStripe& sealed);
  /// Breaks the write off.
  asio::awaitable<void> abort(const Context& context);

  uint64_t written() const { return written_; }
  const std::vector<uint64_t>& failed_servers() const { return allocation_.failed_servers(); }

 private:
  /// Indexes of the chunks that failed; empty chunks, which are on no server, do not.
  std::vector<uint32_t> failed_chunks() const;
  Status check_failures() const;
  bool all_senders_done() const;
  asio::awaitable<void> wait_for_senders(const Context& context);
  asio::awaitable<void> watch_senders();
  void give_up_the_silent();

  Resources& resources_;
  erasure::Policy policy_;
  /// The stripe as a task: it waits for its senders. Whoever fills or seals it is another one.
  sight::Task task_;
  sight::Wait join_;
  std::shared_ptr<const erasure::Code> code_;
  StripeAllocation allocation_;
  runtime::Event changed_;
  std::vector<std::unique_ptr<ChunkSender>> senders_;
  std::vector<std::vector<uint32_t>> block_crcs_;  ///< index: chunk
  uint64_t written_ = 0;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::client
