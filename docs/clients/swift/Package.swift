// swift-tools-version: 6.1
import PackageDescription

let package = Package(
  name: "ConfabChat",
  platforms: [.iOS(.v17), .macOS(.v14)],
  products: [.library(name: "ConfabChat", targets: ["ConfabChat"])],
  dependencies: [.package(url: "https://github.com/apollographql/apollo-ios", from: "2.4.0")],
  targets: [
    .target(
      name: "ConfabChat",
      dependencies: [
        .product(name: "Apollo", package: "apollo-ios"),
        .product(name: "ApolloAPI", package: "apollo-ios"),
        .product(name: "ApolloWebSocket", package: "apollo-ios"),
      ],
      swiftSettings: [.swiftLanguageMode(.v5)]
    )
  ]
)
