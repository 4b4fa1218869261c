#include "chunkserver/store/disk/limited_disk.h"

#include <algorithm>

#include "common/runtime/fault_points.h"

namespace kintsugi::chunkserver {

class LimitedDisk::LimitedFile final : public runtime::File {
 public:
  LimitedFile(LimitedDisk& disk, std::string path, std::unique_ptr<runtime::File> file)
      : disk_(disk), path_(std::move(path)), file_(std::move(file)) {}

  asio::awaitable<Result<size_t>> read(uint64_t offset, std::span<std::byte> into) override {
    Busy busy(disk_);
    disk_.bytes_read_ += into.size();
    if (disk_.rate_ > 0) co_await disk_.pace(into.size());
    const DiskHealth::Call under_way(disk_.health_);
    if (runtime::is_armed(disk_.faults_)) {
      const auto fault = co_await disk_.faults_->pass(runtime::FaultPoint::kDiskRead, path_);
      // What a real disk says when it cannot read.
      if (fault.status.code() == Code::kIoError) co_return Status{Code::kMediumError, fault.status.message()};
      if (!fault.status.ok()) co_return fault.status;
      if (fault.corrupt) co_return co_await read_wrongly(offset, into);
    }
    auto bytes = co_await file_->read(offset, into);
    if (bytes) disk_.health_.read_succeeded();
    co_return bytes;
  }
  asio::awaitable<Status> write(uint64_t offset, std::span<const std::byte> from) override {
    Busy busy(disk_);
    disk_.bytes_written_ += from.size();
    if (disk_.rate_ > 0) co_await disk_.pace(from.size());
    const DiskHealth::Call under_way(disk_.health_);
    KINTSUGI_FAULT_POINT(disk_.faults_, runtime::FaultPoint::kDiskWrite, path_);
    Status written = co_await file_->write(offset, from);
    if (written.ok()) disk_.health_.write_succeeded();
    co_return written;
  }
  asio::awaitable<Status> sync() override {
    Busy busy(disk_);
    const DiskHealth::Call under_way(disk_.health_);
    KINTSUGI_FAULT_POINT(disk_.faults_, runtime::FaultPoint::kDiskSync, path_);
    Status synced = co_await file_->sync();
    if (synced.ok()) disk_.health_.write_succeeded();
    co_return synced;
  }
  asio::awaitable<Status> allocate(uint64_t bytes) override { return disk_.call(file_->allocate(bytes)); }
  asio::awaitable<Status> truncate(uint64_t bytes) override { return disk_.call(file_->truncate(bytes)); }
  asio::awaitable<Result<uint64_t>> size() override { return disk_.call(file_->size()); }

 private:
  /// One byte comes back as another one.
  asio::awaitable<Result<size_t>> read_wrongly(uint64_t offset, std::span<std::byte> into) {
    auto bytes = co_await file_->read(offset, into);
    if (bytes && *bytes > 0) into[*bytes / 2] ^= std::byte{1};
    co_return bytes;
  }

  LimitedDisk& disk_;
  const std::string path_;
  std::unique_ptr<runtime::File> file_;
};

LimitedDisk::Busy::Busy(LimitedDisk& disk) : disk_(disk) {
  if (disk_.under_way_++ == 0) disk_.busy_since_ = disk_.clock_.now();
}

LimitedDisk::Busy::~Busy() {
  if (--disk_.under_way_ == 0) disk_.busy_time_ += disk_.clock_.now() - disk_.busy_since_;
}

Duration LimitedDisk::busy_time() const {
  return under_way_ == 0 ? busy_time_ : busy_time_ + (clock_.now() - busy_since_);
}

asio::awaitable<Result<std::unique_ptr<runtime::File>>> LimitedDisk::open(std::string path,
                                                                          runtime::OpenMode mode) {
  auto file = co_await call(disk_.open(path, mode));
  if (!file) co_return file.error();
  co_return std::unique_ptr<runtime::File>(new LimitedFile(*this, std::move(path), std::move(*file)));
}

asio::awaitable<void> LimitedDisk::pace(uint64_t bytes) {
  const std::chrono::duration<double> takes(static_cast<double>(bytes) / static_cast<double>(rate_));
  // Added before the wait, so that whoever comes next waits behind this one.
  passed_at_ = std::max(passed_at_, clock_.now() - kBurst) + std::chrono::duration_cast<Duration>(takes);
  const TimePoint passed = passed_at_;
  while (clock_.now() < passed)
    (void)co_await never_.wait_until(passed);
}

}  // namespace kintsugi::chunkserver
