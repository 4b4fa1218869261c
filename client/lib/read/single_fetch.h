/// Reads a window that wants one chunk by one fetch, at the price of that chunk's buffers alone.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "client/lib/memory.h"
#include "client/lib/read/chunk_fetch.h"
#include "client/lib/read/stripe_window.h"
#include "client/lib/resources.h"

namespace kintsugi::client {

/// Use once. What a WindowReader does besides (other chunks when this one does not come) takes k + m times the memory, so it is
/// left to one, for the windows for which this fails.
class SingleFetch {
 public:
  /// A chunk is wanted, its server looks well, and no code with sub-chunks is in the way.
  static bool possible(const Resources& resources, const StripeWindow& window);
  static size_t buffers_needed(const StripeWindow& window);

  /// REQUIRES: possible(); `lease` has buffers_needed().
  SingleFetch(Resources& resources, Context context, StripeWindow window, Lease lease);
  ~SingleFetch();

  /// The fetch's error, or kUnavailable when it lags: the server is avoided then.
  asio::awaitable<Status> run();
  /// Once run() succeeded: the window's user bytes in stripe order.
  std::vector<std::span<const std::byte>> bytes() const;

 private:
  Resources& resources_;
  Context context_;
  const StripeWindow window_;
  Lease lease_;  ///< given back after the buffers
  runtime::Event changed_;
  std::shared_ptr<ChunkFetch> fetch_;
};

}  // namespace kintsugi::client
