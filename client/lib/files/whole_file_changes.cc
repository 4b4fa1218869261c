#include "client/lib/files/whole_file_changes.h"

#include <algorithm>

namespace kintsugi::client {

asio::awaitable<void> WholeFileChanges::begin_exclusive(Context context) {
  co_await turns_.take_exclusively(context);
  write_back_.pause();
  co_await write_back_.wait_for_uploads(context);
}

void WholeFileChanges::end_exclusive() {
  turns_.release_exclusively();
  write_back_.resume();
}

asio::awaitable<Result<proto::Attributes>> WholeFileChanges::set_attributes(
    Context context, proto::SetAttributesRequest request) {
  if (request.has_size() && request.size() > kMaxFileBytes)
    co_return Status{Code::kFileTooLarge, "a file has at most 2^63 - 1 bytes"};
  request.set_inode(attributes_.inode());
  const bool times = request.has_modified_ns() || request.modified_now();
  const bool ends_kill = request.has_mode() && write_back_.dirty().kills_privileges();
  if (!request.has_size() && !times && !ends_kill)
    co_return co_await set_beside_writes(context, std::move(request));
  co_await begin_exclusive(context);
  proto::Attributes result;
  const Status status = co_await set_exclusively(context, request, result);
  end_exclusive();
  if (!status.ok()) co_return status;
  co_return result;
}

asio::awaitable<Result<proto::Attributes>> WholeFileChanges::set_beside_writes(
    Context context, proto::SetAttributesRequest request) {
  const uint64_t since = attributes_.heard();
  ++under_way_;
  const auto changed = co_await shared_.calls.set_attributes(context, std::move(request));
  --under_way_;
  if (!changed) co_return changed.error();
  owner_.take_answer(*changed, since);
  co_return write_back_.attributes();
}

asio::awaitable<Status> WholeFileChanges::set_exclusively(Context context,
                                                          proto::SetAttributesRequest& request,
                                                          proto::Attributes& result) {
  const std::optional<uint64_t> size = request.has_size() ? std::optional(request.size()) : std::nullopt;
  // Bytes of time 0 get the time at which they are written out, and what is written next must not be older than what
  // was before.
  const int64_t now = shared_.resources.runtime.clock.wall_now().time_since_epoch().count();
  const bool odd = request.has_modified_ns() && (request.modified_ns() <= 0 || request.modified_ns() > now);
  if (!size && odd) KINTSUGI_CO_TRY(co_await write_back_.drain_while_paused(context));
  const uint64_t since = attributes_.heard();
  const auto changed = co_await shared_.calls.set_attributes(context, request);
  if (!changed) co_return changed.error();
  if (size) {
    write_back_.cut(*size);
    reader_.forget(std::min(*size, attributes_.size()), UINT64_MAX);
    shared_.freed();
  }
  // Bytes that are written out later must set neither the time back to that of their write nor the mode to what the
  // write made of it.
  if (size || request.has_modified_ns() || request.modified_now())
    write_back_.set_modified(changed->modified_ns());
  if (request.has_mode()) write_back_.keep_privileges();
  owner_.take_answer(*changed, since);
  result = write_back_.attributes();
  co_return Status{};
}

asio::awaitable<Status> WholeFileChanges::allocate(Context context, AllocateMode mode, uint64_t offset,
                                                   uint64_t length) {
  if (length == 0 || (mode.punch_hole && (!mode.keep_size || mode.zero_range)))
    co_return Status{mode.punch_hole ? Code::kNotSupported : Code::kInvalidArgument,
                     "unknown mode of allocation"};
  if (offset > kMaxFileBytes || length > kMaxFileBytes - offset)
    co_return Status{Code::kFileTooLarge, "a file has at most 2^63 - 1 bytes"};
  if (mode.punch_hole || mode.zero_range) {
    co_await begin_exclusive(context);
    const Status status = co_await make_hole(context, mode, offset, length);
    end_exclusive();
    co_return status;
  }
  // Space is not reserved: nobody knows which stripes it will be in.
  if (mode.keep_size || offset + length <= write_back_.size()) co_return Status{};
  co_await begin_exclusive(context);
  const Status status = co_await extend(context, offset + length);
  end_exclusive();
  co_return status;
}

asio::awaitable<Status> WholeFileChanges::extend(Context context, uint64_t size) {
  // Others may have made it longer still, so its size is not set.
  proto::WriteExtentsRequest request;
  request.set_inode(attributes_.inode());
  request.set_size_at_least(size);
  const uint64_t since = attributes_.heard();
  const auto written = co_await shared_.calls.write_extents(context, std::move(request));
  if (!written) co_return written.error();
  write_back_.set_modified(written->attributes().modified_ns());
  owner_.take_answer(written->attributes(), since);
  co_return Status{};
}

asio::awaitable<Status> WholeFileChanges::make_hole(Context context, AllocateMode mode, uint64_t offset,
                                                    uint64_t length) {
  KINTSUGI_CO_TRY(co_await write_back_.drain_while_paused(context));
  const uint64_t end = mode.keep_size ? std::min(offset + length, write_back_.size()) : offset + length;
  if (end <= offset) co_return Status{};
  proto::WriteExtentsRequest request;
  request.set_inode(attributes_.inode());
  proto::Extent& hole = *request.add_extents();
  hole.set_file_offset(offset);
  hole.set_length(end - offset);
  if (!mode.keep_size) request.set_size_at_least(end);
  const uint64_t since = attributes_.heard();
  const auto written = co_await shared_.calls.write_extents(context, std::move(request));
  if (!written) co_return written.error();
  owner_.take_answer(written->attributes(), since);
  reader_.forget(offset, end);
  co_return Status{};
}

asio::awaitable<Result<uint64_t>> WholeFileChanges::copy_range(Context context, const WriteBack& from,
                                                               uint64_t from_offset, uint64_t to_offset,
                                                               uint64_t length) {
  co_await begin_exclusive(context);
  auto copied = co_await copy_into(context, from, from_offset, to_offset, length);
  end_exclusive();
  co_return copied;
}

asio::awaitable<Result<uint64_t>> WholeFileChanges::copy_into(Context context, const WriteBack& from,
                                                              uint64_t from_offset, uint64_t to_offset,
                                                              uint64_t length) {
  KINTSUGI_CO_TRY(co_await write_back_.drain_while_paused(context));
  const uint64_t there = from.size() > from_offset ? from.size() - from_offset : 0;
  length = std::min(length, there);
  uint64_t done = 0;
  while (done < length) {
    proto::CopyExtentsRequest request;
    request.set_from(from.inode());
    request.set_from_offset(from_offset + done);
    request.set_to(attributes_.inode());
    request.set_to_offset(to_offset + done);
    request.set_length(length - done);
    const uint64_t since = attributes_.heard();
    const auto answer = co_await shared_.calls.copy_extents(context, std::move(request));
    if (!answer && done == 0) co_return answer.error();
    if (!answer || answer->length() == 0) break;
    reader_.forget(to_offset + done, to_offset + done + answer->length());
    owner_.take_answer(answer->attributes(), since);
    done += answer->length();
  }
  co_return done;
}

}  // namespace kintsugi::client
