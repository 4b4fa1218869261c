/// A JSON document that is put together and printed: `Json{{"bytes", 12}, {"entries", Json::array()}}`.
///
/// nlohmann's type costs every file that names it several seconds to compile. This one only holds the values; json.cc
/// alone knows how they are written.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace kintsugi::cli {

class Json {
 public:
  using Member = std::pair<std::string, Json>;

  Json() = default;  ///< null
  Json(bool value) : value_(value) {}
  template <std::signed_integral T>
  Json(T value) : value_(static_cast<int64_t>(value)) {}
  template <std::unsigned_integral T>
  Json(T value) : value_(static_cast<uint64_t>(value)) {}
  Json(double value) : value_(value) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(const char* value) : value_(std::string(value)) {}
  /// An object. Its members keep their order.
  Json(std::initializer_list<Member> members) : value_(Object(members)) {}
  static Json array();

  /// Appends to an array. REQUIRES: this is an array.
  void push_back(Json element);
  /// The member of an object, added at the end when there is none. REQUIRES: this is an object.
  Json& operator[](std::string_view key);
  /// Appends the members of another object. REQUIRES: both are objects.
  void append(Json object);

  /// The document as text, in lines that are indented by two spaces for each level. Strings may hold any bytes: those
  /// that are not UTF-8 become replacement characters.
  std::string pretty() const;
  /// The document on one line.
  std::string compact() const;

 private:
  using Array = std::vector<Json>;
  using Object = std::vector<Member>;
  struct Writer;

  std::variant<std::nullptr_t, bool, int64_t, uint64_t, double, std::string, Array, Object> value_;
};

/// Prints one document on stdout.
void print_json(const Json& document);

}  // namespace kintsugi::cli
