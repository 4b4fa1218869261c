/// A simulated disk in the hands of programs: runtime::Disk and runtime::File for one life of the machine.
#pragma once

#include <map>

#include "tests/simulation/runtime/gate.h"
#include "tests/simulation/runtime/sim_disk.h"

namespace kintsugi::simulation {

/// An operation under way.
struct SimDisk::Pending {
  Gate done;
  std::optional<Status> result;
  InodePtr written;
  uint64_t offset = 0;
  std::span<const std::byte> data;
};

struct SimDisk::Life {
  bool alive = true;
  std::map<uint64_t, std::shared_ptr<Pending>> pending;  ///< by number of the operation
};

class DiskView final : public runtime::Disk {
 public:
  explicit DiskView(SimDisk& disk) : disk_(disk), life_(std::make_shared<SimDisk::Life>()) {}

  asio::awaitable<Result<std::unique_ptr<runtime::File>>> open(std::string path,
                                                               runtime::OpenMode mode) override;
  asio::awaitable<Status> rename(std::string from, std::string to) override;
  asio::awaitable<Status> remove(std::string path) override;
  asio::awaitable<Status> make_directory(std::string path) override;
  asio::awaitable<Status> sync_directory(std::string path) override;
  asio::awaitable<Result<std::vector<std::string>>> list(std::string path) override;
  asio::awaitable<Result<runtime::DiskSpace>> space(std::string path) override;
  asio::awaitable<Result<runtime::FileAttributes>> attributes(std::string path) override;
  asio::awaitable<Result<std::unique_ptr<runtime::FileLock>>> lock(std::string path) override;

 private:
  friend class SimDisk;
  asio::awaitable<Status> perform(DiskOp op, const std::string& path);
  TimePoint now() const { return disk_.clock_.now(); }

  SimDisk& disk_;
  std::shared_ptr<SimDisk::Life> life_;
};

/// The lock of a file. It ends with the machine's life, as locks of a kernel do, though the object may be destroyed
/// later.
class SimLock final : public runtime::FileLock {
 public:
  SimLock(std::shared_ptr<SimDisk::Life> life, InodePtr inode)
      : life_(std::move(life)), inode_(std::move(inode)) {
    inode_->lock = this;
  }
  ~SimLock() override {
    if (inode_->lock == this) inode_->lock = nullptr;
  }
  SimLock(const SimLock&) = delete;
  bool held() const { return life_->alive; }

 private:
  std::shared_ptr<SimDisk::Life> life_;
  InodePtr inode_;
};

/// An open file. It lives on after its name is removed, as files do, and is dead once the machine has crashed.
class SimFile final : public runtime::File {
 public:
  SimFile(SimDisk& disk, std::shared_ptr<SimDisk::Life> life, InodePtr inode, std::string path, bool writable)
      : disk_(disk),
        life_(std::move(life)),
        inode_(std::move(inode)),
        path_(std::move(path)),
        writable_(writable) {}

  asio::awaitable<Result<size_t>> read(uint64_t offset, std::span<std::byte> into) override;
  asio::awaitable<Status> write(uint64_t offset, std::span<const std::byte> from) override;
  asio::awaitable<Status> sync() override;
  asio::awaitable<Status> allocate(uint64_t bytes) override;
  asio::awaitable<Status> truncate(uint64_t bytes) override;
  asio::awaitable<Result<uint64_t>> size() override;

 private:
  asio::awaitable<Status> perform(DiskOp op, uint64_t offset = 0, uint64_t bytes = 0,
                                  std::span<const std::byte> data = {});
  Status check_writable() const;

  SimDisk& disk_;
  std::shared_ptr<SimDisk::Life> life_;
  InodePtr inode_;
  std::string path_;
  bool writable_;
};

}  // namespace kintsugi::simulation
