#include "client/lib/files/open_file_state.h"

#include <algorithm>

#include "common/base/assert.h"
#include "common/proto/promises.h"

namespace kintsugi::client {
namespace {

constexpr uint64_t kReadStep = 1 << 20;
constexpr Duration kAfterNoAnswer = 3s;  ///< reads do not ask a metaserver again that has not answered

}  // namespace

OpenFileState::OpenFileState(FilesShared& shared, proto::Attributes attributes)
    : shared_(shared),
      attributes_(std::move(attributes)),
      reader_(shared, *this, inode()),
      write_back_(shared, *this, attributes_, reader_, handles_),
      turns_(shared.resources.runtime),
      changes_(shared, *this, attributes_, reader_, write_back_, turns_),
      asked_again_at_(shared.resources.now() + kBelieved) {}

// ---- what others do to the file

bool OpenFileState::adopt(const proto::Attributes& attributes) {
  const FileAttributes::Adopted adopted = attributes_.adopt(attributes);
  if (adopted == FileAttributes::Adopted::kChanged) reader_.forget(0, UINT64_MAX);
  return adopted != FileAttributes::Adopted::kOlder;
}

void OpenFileState::take_answer(const proto::Attributes& attributes, uint64_t since) {
  const bool alone = shared_.session.has_lease(inode()) || attributes_.is_next(attributes);
  attributes_.take_answer(attributes, since);
  if (alone) return;
  attributes_.may_be_changed_by_others();
  reader_.forget(0, UINT64_MAX);
}

asio::awaitable<Result<proto::Attributes>> OpenFileState::refresh(Context context) {
  const auto found = co_await shared_.calls.get(context, inode());
  if (!found) co_return found.error();
  adopt(*found);
  co_return attributes();
}

asio::awaitable<Status> OpenFileState::see_others(Context context) {
  if (shared_.session.has_lease(inode())) co_return Status{};
  const auto found = co_await refresh(context);
  co_return found ? Status{} : found.error();
}

asio::awaitable<void> OpenFileState::see_others_at_times(Context context) {
  const TimePoint now = shared_.resources.now();
  if (now < asked_again_at_) co_return;
  context.deadline = std::min(context.deadline, now + kBelieved);
  const Status seen = co_await see_others(context);
  asked_again_at_ = shared_.resources.now() + (seen.ok() ? Duration(kBelieved) : kAfterNoAnswer);
}

bool OpenFileState::may_set_attributes() const {
  return !turns_.is_exclusive() && !changes_.under_way() && write_back_.dirty().layers().empty() &&
         attributes_.known().changed_ns() != 0;
}

void OpenFileState::attributes_set(const proto::Attributes& attributes, bool modified) {
  attributes_.set_here(attributes);
  // Bytes that are written out later must not set the time back to that of their write.
  if (modified) write_back_.set_modified(attributes.modified_ns());
}

void OpenFileState::attributes_refused(const Status& why) {
  attributes_.doubt_own_changes();
  handles_.record_error(why);
}

// ---- reading

asio::awaitable<Result<size_t>> OpenFileState::read(Context context, uint64_t offset,
                                                    std::span<std::byte> into) {
  const auto self = shared_from_this();
  co_await see_others_at_times(context);
  if (turns_.is_exclusive()) co_await turns_.wait_while_exclusive(context);
  const uint64_t size = this->size();
  if (offset >= size || into.empty()) co_return size_t{0};
  into = into.first(std::min<uint64_t>(into.size(), size - offset));
  // What is not written out is copied before anything is waited for: it may be durable, and gone from here, a moment
  // later.
  std::vector<ByteRange> missing{{offset, offset + into.size()}};
  write_back_.dirty().overlay(offset, into, missing);
  const uint64_t stored_size = attributes_.size();
  for (const ByteRange& range : missing) {
    const auto part = into.subspan(range.begin - offset, range.length());
    // Beyond what is stored there is a hole, whatever comes there meanwhile.
    const uint64_t stored =
        range.begin >= stored_size ? 0 : std::min(range.length(), stored_size - range.begin);
    // A long range is read in steps, so that what follows is read ahead meanwhile.
    for (uint64_t at = 0; at < stored; at += kReadStep) {
      const uint64_t bytes = std::min(stored - at, kReadStep);
      reader_.note_read(range.begin + at, bytes, stored_size);
      KINTSUGI_CO_TRY(co_await reader_.read(context, range.begin + at, part.subspan(at, bytes)));
    }
    std::ranges::fill(part.subspan(stored), std::byte{});
  }
  shared_.traffic.read_bytes += into.size();
  co_return into.size();
}

asio::awaitable<Result<uint64_t>> OpenFileState::seek(Context context, uint64_t offset, bool data) {
  const auto self = shared_from_this();
  KINTSUGI_CO_TRY(co_await see_others(context));
  if (turns_.is_exclusive()) co_await turns_.wait_while_exclusive(context);
  const uint64_t size = this->size();
  if (offset >= size) co_return Status{Code::kRange, "beyond the end of the file"};
  co_return co_await (data ? seek_data(context, offset, size) : seek_hole(context, offset, size));
}

asio::awaitable<Result<uint64_t>> OpenFileState::seek_data(Context context, uint64_t offset, uint64_t size) {
  uint64_t next = write_back_.dirty().next_data(offset);
  if (next > offset) {
    KINTSUGI_CO_ASSIGN(const uint64_t stored, co_await reader_.locator().next_data(
                                                  context, offset, std::max(offset, attributes_.size())));
    if (stored < attributes_.size()) next = std::min(next, stored);
  }
  if (next >= size) co_return Status{Code::kNoData, "no data until the end of the file"};
  co_return next;
}

asio::awaitable<Result<uint64_t>> OpenFileState::seek_hole(Context context, uint64_t offset, uint64_t size) {
  while (offset < size) {
    const uint64_t before = offset;
    offset = write_back_.dirty().next_gap(offset);
    if (offset < attributes_.size()) {
      KINTSUGI_CO_ASSIGN(offset, co_await reader_.locator().next_hole(context, offset, attributes_.size()));
    }
    if (offset == before) break;
  }
  co_return std::min(offset, size);
}

// ---- writing

asio::awaitable<Status> OpenFileState::write(Context context, uint64_t offset,
                                             std::span<const std::byte> bytes, bool kill_privileges) {
  const auto self = shared_from_this();
  KINTSUGI_CO_TRY(co_await turns_.take(context, shared_.give_up()));
  Status written = co_await write_in_turn(context, offset, bytes, kill_privileges);
  turns_.release();
  co_return written;
}

asio::awaitable<Result<uint64_t>> OpenFileState::append(Context context, std::span<const std::byte> bytes,
                                                        bool kill_privileges, uint64_t request) {
  const auto self = shared_from_this();
  KINTSUGI_CO_TRY(co_await turns_.take(context, shared_.give_up()));
  const auto appended = co_await append_in_turn(context, bytes, kill_privileges, request);
  turns_.release();
  co_return appended;
}

asio::awaitable<Result<uint64_t>> OpenFileState::append_in_turn(Context context,
                                                                std::span<const std::byte> bytes,
                                                                bool kill_privileges, uint64_t request) {
  KINTSUGI_CO_TRY(co_await see_others(context));
  uint64_t offset = size();
  if (const auto begun = shared_.appends->begun(inode(), request)) {
    const bool others_followed = *begun < size() && size() - *begun > bytes.size();
    if (!others_followed) {
      offset = std::min(*begun, size());
    } else {
      KINTSUGI_CO_ASSIGN(const bool there, co_await holds(context, *begun, bytes));
      if (there) co_return *begun;
    }
  }
  const AppendLog::Note note(*shared_.appends, inode(), request, offset);
  KINTSUGI_CO_TRY(co_await write_in_turn(context, offset, bytes, kill_privileges));
  co_return offset;
}

asio::awaitable<Result<bool>> OpenFileState::holds(Context context, uint64_t offset,
                                                   std::span<const std::byte> bytes) {
  std::vector<std::byte> found(bytes.size());
  KINTSUGI_CO_ASSIGN(const size_t read, co_await this->read(context, offset, found));
  co_return read == bytes.size() && std::ranges::equal(found, bytes);
}

asio::awaitable<Status> OpenFileState::write_in_turn(Context context, uint64_t offset,
                                                     std::span<const std::byte> bytes, bool kill_privileges) {
  KINTSUGI_ASSERT(is_open() && !turns_.is_exclusive());
  if (offset > kMaxFileBytes || bytes.size() > kMaxFileBytes - offset)
    co_return Status{Code::kFileTooLarge, "a file has at most 2^63 - 1 bytes"};
  KINTSUGI_CO_TRY(co_await write_back_.write(context, offset, bytes, kill_privileges));
  shared_.traffic.written_bytes += bytes.size();
  co_return Status{};
}

asio::awaitable<Status> OpenFileState::flush(Context context) {
  const auto self = shared_from_this();
  if (turns_.is_exclusive()) co_await turns_.wait_while_exclusive(context);
  if (!write_back_.gone().ok()) co_return write_back_.gone();
  // Few names go along with the bytes; many go ahead of them, which take longer.
  if (is_clean() || !shared_.unsent.is_little()) shared_.unsent.start_flush();
  KINTSUGI_CO_TRY(co_await write_back_.drain(context));
  co_return co_await shared_.unsent.flush(context);
}

void OpenFileState::close_one() {
  shared_.session.release(inode());
  handles_.closed();
  if (is_open() || shared_.handed_over) return;
  write_back_.give_up_failed();
  // Under a lease it may wait: who wants to see it asks for the lease first.
  if (!shared_.session.has_lease(inode())) start_flush();
  if (is_clean()) shared_.forget(inode());
}

// ---- operations on the whole file

asio::awaitable<Result<proto::Attributes>> OpenFileState::set_attributes(
    Context context, proto::SetAttributesRequest request) {
  const auto self = shared_from_this();
  co_return co_await changes_.set_attributes(context, std::move(request));
}

asio::awaitable<Status> OpenFileState::allocate(Context context, AllocateMode mode, uint64_t offset,
                                                uint64_t length) {
  const auto self = shared_from_this();
  KINTSUGI_CO_TRY(co_await see_others(context));
  co_return co_await changes_.allocate(context, mode, offset, length);
}

asio::awaitable<Result<uint64_t>> OpenFileState::copy_range(Context context, OpenFileState& from,
                                                            uint64_t from_offset, uint64_t to_offset,
                                                            uint64_t length) {
  const auto self = shared_from_this();
  const auto other = from.shared_from_this();
  if (&from != this) KINTSUGI_CO_TRY(co_await from.flush(context));
  KINTSUGI_CO_TRY(co_await from.see_others(context));
  co_return co_await changes_.copy_range(context, from.write_back_, from_offset, to_offset, length);
}

}  // namespace kintsugi::client
