#include "chunkserver/service/small_chunks.h"

#include "chunkserver/service/chunk_policy.h"
#include "common/base/crc32c.h"
#include "common/base/math.h"
#include "monitoring/sight/module.h"

namespace kintsugi::chunkserver {
namespace {

constexpr sight::Site kWriteSmall{"chunkserver.write_small_chunk", {"bytes"}};
constexpr sight::Site kReadSmall{"chunkserver.read_small_chunk", {}, {"bytes"}};

Status check_size(uint64_t bytes) {
  if (bytes > 0 && bytes <= kBlockBytes) return {};
  return {Code::kInvalidArgument,
          fmt::format("{} bytes; a small chunk has between 1 and {}", bytes, kBlockBytes)};
}

}  // namespace

void SmallChunks::count(uint64_t& total, uint64_t bytes) {
  total += bytes;
  counters_.add_user_bytes(bytes, clock_.now());
}

asio::awaitable<Status> SmallChunks::write(Context context, const proto::WriteSmallChunkRequest& request) {
  sight::Module module{context, kWriteSmall, {double(request.data().size())}};
  Status checked = check_size(request.data().size());
  if (checked.ok()) checked = check_policy(request.policy(), request.index());
  if (!checked.ok()) co_return module.finish(std::move(checked));
  count(counters_.bytes_written, request.data().size());
  const ChunkId id{StripeId(request.stripe_id()), request.index()};
  ChunkHeader header{{id, request.data().size(), request.crc()}, request.policy()};
  co_return module.finish(co_await store_.put_small(module.context(), std::move(header),
                                                    std::as_bytes(std::span(request.data()))));
}

asio::awaitable<Status> SmallChunks::read(Context context, const proto::ReadSmallChunkRequest& request,
                                          proto::ReadSmallChunkResponse& response) {
  sight::Module module{context, kReadSmall};
  const ChunkId id{StripeId(request.stripe_id()), request.index()};
  auto chunk = co_await store_.open(module.context(), id, ReadFor::kUser);
  if (!chunk) co_return module.finish(chunk.error());
  const bool whole = request.length() == 0;
  const uint64_t length = (*chunk)->length();
  Status checked = check_size(whole ? length : request.length());
  if (checked.ok() && !whole && (request.offset() > length || request.length() > length - request.offset()))
    checked = {Code::kInvalidArgument,
               fmt::format("has {} bytes, not {} from {} on", length, request.length(), request.offset())};
  if (!checked.ok()) co_return module.finish(checked.with_context(fmt::format("chunk {}", id)));
  const uint64_t begin = whole ? 0 : request.offset(), bytes = whole ? length : request.length();
  std::span<const std::byte> data = (*chunk)->cached_bytes(begin, bytes);
  std::shared_ptr<runtime::Buffer> buffer;  // whose bytes `data` are, if the cache does not have them
  if (data.empty()) {
    auto acquired = co_await acquire_buffer(module.context(), buffers_, (*chunk)->disk());
    if (!acquired) co_return module.finish(acquired.error());
    buffer = std::make_shared<runtime::Buffer>(std::move(*acquired));
    const uint64_t first = begin / kBlockBytes;
    auto blocks = co_await (*chunk)->read_blocks(module.context(), first,
                                                 divide_up(begin + bytes, kBlockBytes) - first, buffer);
    if (!blocks) co_return module.finish(blocks.error());
    data = blocks->data.subspan(begin - first * kBlockBytes, bytes);
  }
  module.output(0, double(bytes));
  count(counters_.bytes_read, bytes);
  response.set_data(data.data(), data.size());
  response.set_crc(whole ? (*chunk)->crc() : crc32c(data));
  co_return module.finish({});
}

}  // namespace kintsugi::chunkserver
