/// Reads and writes of local files, on threads of their own, so that a slow disk never stops the network.
#pragma once

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <sys/uio.h>

#include "common/base/status.h"

namespace kintsugi {
namespace asio = boost::asio;
}

namespace kintsugi::cli {

/// Runs `work` on one of the threads and comes back to the coroutine's own executor. `work` stays in this frame, which
/// lives until the answer has come back, so that nothing is copied.
template <class Answer, class Work>
asio::awaitable<Answer> on_thread(asio::thread_pool& threads, Work work) {
  auto initiate = [&threads, &work](auto handler) {
    asio::post(threads, [handler = std::move(handler), &work]() mutable {
      Answer answer = work();
      auto executor = asio::get_associated_executor(handler);
      asio::post(executor, [handler = std::move(handler), answer = std::move(answer)]() mutable {
        std::move(handler)(std::move(answer));
      });
    });
  };
  co_return co_await asio::async_initiate<const asio::use_awaitable_t<>&, void(Answer)>(initiate,
                                                                                        asio::use_awaitable);
}

/// Moves all bytes of `ranges` by calls like readv and writev, which may each move a part. Returns the bytes that were
/// moved: fewer than asked for only at the end of the file.
template <class Range, class Call>
Result<size_t> move_all(const std::string& path, std::span<const Range> ranges, Call call) {
  std::vector<iovec> vectors;
  for (const Range& range : ranges) {
    if (!range.empty()) vectors.push_back({const_cast<std::byte*>(range.data()), range.size()});
  }
  size_t done = 0, first = 0;
  while (first < vectors.size()) {
    const int count = static_cast<int>(std::min<size_t>(vectors.size() - first, IOV_MAX));
    ssize_t moved = call(vectors.data() + first, count, done);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) return status_from_errno(errno, path);
    if (moved == 0) break;
    done += static_cast<size_t>(moved);
    while (moved > 0) {
      const size_t part = std::min(static_cast<size_t>(moved), vectors[first].iov_len);
      vectors[first].iov_base = static_cast<char*>(vectors[first].iov_base) + part;
      vectors[first].iov_len -= part;
      moved -= static_cast<ssize_t>(part);
      if (vectors[first].iov_len == 0) ++first;
    }
  }
  return done;
}

}  // namespace kintsugi::cli
