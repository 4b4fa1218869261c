/// Positions in directories that are being listed. The metaserver resumes after a name, the kernel with a number: this
/// knows which name a number stands for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <string_view>

namespace kintsugi::mount {

class DirectoryCookies;

/// What all open directories may remember together. REQUIRES: it outlives them.
class CookieBudget {
 public:
  explicit CookieBudget(size_t max_names) : max_names_(max_names) {}
  size_t names() const { return names_; }

 private:
  friend class DirectoryCookies;
  const size_t max_names_;
  size_t names_ = 0;
  std::list<DirectoryCookies*> by_use_;  ///< ordered by use; the one listed last comes last
};

/// One for each open directory. Cookies count entries from 1 on. The last kRecent are exact, whatever comes and goes;
/// of those before, every kSparse-th is: a listing that resumes there is brought forward by counting. Where the budget
/// is exceeded, directories that nobody has listed for the longest remember less.
class DirectoryCookies {
 public:
  static constexpr size_t kRecent = 64 << 10;
  static constexpr uint64_t kSparse = 1024;

  explicit DirectoryCookies(CookieBudget& budget);
  ~DirectoryCookies();
  DirectoryCookies(const DirectoryCookies&) = delete;
  DirectoryCookies& operator=(const DirectoryCookies&) = delete;

  /// The cookie of the entry that follows the one with cookie `after` (0: the first one).
  uint64_t add(uint64_t after, std::string_view name);

  /// Where to continue behind an entry: after `name`, once `skip` more entries were passed over.
  struct Position {
    std::string name;
    uint64_t skip = 0;
  };
  Position behind(uint64_t cookie) const;

 private:
  void was_used();
  void shrink();
  void forget(uint64_t cookie);
  void keep_recent_behind(uint64_t cookie);

  CookieBudget& budget_;
  std::list<DirectoryCookies*>::iterator use_;
  std::map<uint64_t, std::string> names_;
  size_t recent_ = kRecent;
  uint64_t sparse_ = kSparse;
  uint64_t oldest_recent_ = 1;
};

}  // namespace kintsugi::mount
