plugins {
    id("com.android.library") version "9.2.0"
    kotlin("plugin.compose") version "2.3.21"
    kotlin("plugin.serialization") version "2.3.21"
    id("com.apollographql.apollo") version "5.1.0"
}

android {
    namespace = "example.chat"
    compileSdk = 36
    defaultConfig { minSdk = 26 }
    buildFeatures { compose = true }
}

dependencies {
    implementation("com.apollographql.apollo:apollo-runtime:5.1.0")
    implementation("org.jetbrains.kotlinx:kotlinx-coroutines-android:1.10.2")
    implementation("org.jetbrains.kotlinx:kotlinx-serialization-json:1.9.0")
    implementation("androidx.activity:activity-compose:1.12.0")
    implementation("androidx.lifecycle:lifecycle-runtime-compose:2.10.0")
    implementation(platform("androidx.compose:compose-bom:2026.04.00"))
    implementation("androidx.compose.material3:material3")
}

apollo {
    service("confab") {
        packageName.set("example.chat.graphql")
        schemaFiles.from("../../../schema/schema.graphql")
        srcDir("../graphql")
        // Optional variables become nullable parameters.
        generateOptionalOperationVariables.set(false)
        // Milliseconds since 1970 do not fit into Int.
        mapScalarToKotlinLong("Timestamp")
        mapScalarToKotlinString("DateTime")
        mapScalarToKotlinString("Cursor")
        mapScalarToKotlinAny("JSON")
        introspection {
            endpointUrl.set("http://127.0.0.1:8000/graphql")
            schemaFile.set(file("schema.graphql"))
        }
    }
}
