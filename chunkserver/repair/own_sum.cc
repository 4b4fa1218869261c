#include "chunkserver/repair/own_sum.h"

#include "chunkserver/store/disk/aligned_memory.h"
#include "common/base/math.h"
#include "common/runtime/fault_points.h"
#include "monitoring/sight/module.h"
#include "partial_sum/check_tree.h"

namespace kintsugi::chunkserver {
namespace {

using partial_sum::SliceWindow;
using partial_sum::SumRange;

constexpr sight::Site kOwn{"chunkserver.partial_sum_own", {"bytes"}, {"read_seconds"}};

std::vector<uint32_t> rows_of(const proto::RepairNode& node, uint32_t rows) {
  std::vector<uint32_t> own(node.own_rows().begin(), node.own_rows().end());
  for (uint32_t row = 0; own.size() < partial_sum::own_rows_of(node, rows); ++row)
    own.push_back(row);
  return own;
}

}  // namespace

struct OwnSum::Part {
  size_t unit = 0;      ///< the unit in which the part begins
  uint64_t within = 0;  ///< offset of the part in that unit
  uint64_t bytes = 0;
  OwnedSpan memory;
};

class OwnSum::Memory {
 public:
  Memory(partial_sum::HeldMemory& held, size_t bytes)
      : held_(held), memory_(std::make_shared<AlignedMemory>(bytes)) {
    held_.take(memory_->size());
  }
  ~Memory() { held_.give_back(memory_->size()); }
  Memory(const Memory&) = delete;
  OwnedSpan span() const { return {memory_->span(), memory_}; }

 private:
  partial_sum::HeldMemory& held_;
  const std::shared_ptr<AlignedMemory> memory_;
};

OwnSum::OwnSum(const runtime::Clock& clock, ChunkStore& store, StripeId stripe, const proto::RepairNode& node,
               uint32_t rows, ReadFor purpose)
    : clock_(clock),
      store_(store),
      purpose_(purpose),
      id_{stripe, node.index()},
      length_(node.chunk_length()),
      rows_(rows_of(node, rows)),
      matrix_(node.coefficients(), partial_sum::sums_of(node, rows), static_cast<uint32_t>(rows_.size())) {}

asio::awaitable<Status> OwnSum::contribute(Context context, SliceWindow& window, size_t contributor) {
  sight::Task module{context, kOwn, {double(window.range().length)}};
  const TimePoint began = clock_.now();
  auto reader = co_await store_.open(module.context(), id_, purpose_);
  if (!reader) co_return module.finish(reader.error());
  read_seconds_ += to_seconds(clock_.now() - began);
  if ((*reader)->length() != length_) {
    co_return module.finish({Code::kCorrupt, fmt::format("chunk {} has {} bytes here instead of {}", id_,
                                                         (*reader)->length(), length_)});
  }
  Status added = co_await add_all(module.context(), **reader, window, contributor);
  disk_bytes_ = (*reader)->disk_bytes();
  module.output(0, read_seconds_);
  co_return module.finish(std::move(added));
}

asio::awaitable<Status> OwnSum::add_all(Context context, ChunkReader& reader, SliceWindow& window,
                                        size_t contributor) {
  const partial_sum::WindowSize& size = window.size();
  const SumRange& range = window.range();
  Memory memory(window.held(), std::min(size.own_bytes, round_up(range.slice_bytes, kBlockBytes)));
  Part part;
  part.memory = memory.span();
  while (part.unit < window.units()) {
    runtime::advance(context, 1);
    const size_t slice = window.slice_of(part.unit);
    const uint64_t left =
        range.begin_of(slice) + range.bytes_of(slice) - window.begin_of(part.unit) - part.within;
    // All rows of a part are added before the next part is read, so that a part must fit into the window: the consumer
    // releases no unit before its last row is in.
    const uint64_t room = size.units * size.unit_bytes - part.within;
    part.bytes = std::min({left, room, size.own_bytes});
    if (part.bytes < left) part.bytes = round_down(part.bytes, kBlockBytes);
    KINTSUGI_ASSERT(part.bytes > 0);
    KINTSUGI_FAULT_POINT(context.faults, runtime::FaultPoint::kOwnSum, fmt::format("{}", id_));
    KINTSUGI_CO_TRY(co_await add_part(context, reader, window, contributor, part));
  }
  co_return Status{};
}

asio::awaitable<Status> OwnSum::add_part(Context context, ChunkReader& reader, SliceWindow& window,
                                         size_t contributor, Part& part) {
  const SumRange& range = window.range();
  const uint64_t begin = range.offset + window.begin_of(part.unit) + part.within;
  size_t unit = 0;
  uint64_t within = 0;
  for (uint32_t input = 0; input < rows_.size(); ++input) {
    const TimePoint asked = clock_.now();
    auto data = co_await read_row(context, reader, range, rows_[input], begin, part);
    if (!data) co_return data.error();
    read_seconds_ += to_seconds(clock_.now() - asked);
    unit = part.unit;
    within = part.within;
    for (uint64_t done = 0; done < part.bytes;) {
      const uint64_t end = std::min(window.bytes_of(unit), within + part.bytes - done);
      KINTSUGI_CO_ASSIGN(const bool first,
                         co_await window.wait_turn(context, contributor, unit, end, window.size().own_first));
      if (done < data->size()) {
        const TimePoint began = clock_.now();
        const auto in = data->subspan(done, std::min(end - within, data->size() - done));
        matrix_.add(input, in, window.sums(contributor, unit, within, within + in.size()),
                    first && input == 0);
        compute_seconds_ += to_seconds(clock_.now() - began);
      }
      if (input + 1 == rows_.size()) window.advance(contributor, unit, end);
      done += end - within;
      within = end;
      if (end == window.bytes_of(unit)) {
        ++unit;
        within = 0;
      }
    }
  }
  part.unit = unit;
  part.within = within;
  co_return Status{};
}

asio::awaitable<Result<std::span<const std::byte>>> OwnSum::read_row(Context context, ChunkReader& reader,
                                                                     const SumRange& range, uint32_t row,
                                                                     uint64_t begin, const Part& part) {
  uint64_t done = 0;
  while (done < part.bytes) {
    uint64_t from = begin + done, bytes = part.bytes - done;
    if (range.rows > 1) {
      const uint64_t sub_cell = range.sub_cell_bytes();
      const uint64_t in_cell = from % sub_cell;
      bytes = std::min(bytes, sub_cell - in_cell);
      from = from / sub_cell * range.cell_bytes + row * sub_cell + in_cell;
    }
    if (from >= reader.length()) break;
    bytes = std::min(bytes, reader.length() - from);
    const OwnedSpan into = part.memory.subspan(done);
    auto blocks = co_await reader.read_blocks(context, from / kBlockBytes, blocks_of(bytes), into);
    if (!blocks) co_return blocks.error();
    done += bytes;
  }
  co_return std::span<const std::byte>(part.memory.bytes.first(done));
}

}  // namespace kintsugi::chunkserver
